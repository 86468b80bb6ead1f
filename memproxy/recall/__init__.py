"""From a query to the block that is injected: rewrite, search, fusion, floor, budget, assembly."""
