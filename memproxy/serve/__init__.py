"""The processes of ``memproxy serve``: a supervisor, the relays, the engine, and the writer of the engine's state.

supervisor  takes the port and the store, starts the others, restarts what dies or hangs, hands a reloaded
            configuration over, and writes down the shutdown order
processes   what runs in each of them; launch says how it is handed over to them, and how they notice its end
server      the HTTP server that relay and engine share
"""
