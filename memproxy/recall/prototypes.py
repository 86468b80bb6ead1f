"""Whether a query asks for general knowledge, told by the example questions that are nearest to it.

For queries that no pattern knows and that have no personal words. The examples are our own, a few dozen of each side;
a query is general when the mean cosine of its nearest general examples exceeds that of its nearest personal ones by a
margin. Cosines are between vectors of length 1 of the same embedder.
"""

from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray

from memproxy.ports import Embedder

NEAREST = 3
"""Examples of each side that are compared: one alone may be near by chance."""

MARGIN = 0.15
"""How much nearer the general examples must be: at 0.10 two of 611 LoCoMo development questions that no pattern knows
are lost with MiniLM, at 0.15 none.
"""

LEAST_COSINE = 0.30
"""Below, nothing is near, and a query that is like nothing is searched."""

GENERAL = (
    "What is the capital of a country?",
    "How tall is the highest mountain?",
    "Who invented the telephone?",
    "When did the war end?",
    "How old was the king when he died?",
    "Where is the river located?",
    "What does this word mean?",
    "What is the population of the city?",
    "How deep is the ocean?",
    "Which is the longest bridge?",
    "Who was the first president?",
    "Who wrote the novel?",
    "What is the boiling point of water?",
    "How many planets are there in the solar system?",
    "What is the chemical symbol for gold?",
    "Who discovered penicillin?",
    "What kind of animal is it?",
    "What is a chemical compound made of?",
    "When was the treaty signed?",
    "Why is the sky blue?",
    "How does a car engine work?",
    "How to change the oil in a car",
    "How to jump start a battery",
    "What type of fuel does a diesel engine take?",
    "What voltage do sockets have?",
    "How many calories are in a burger?",
    "Nutrition facts of rice",
    "Can butter be replaced by oil in baking?",
    "How long does chicken have to be cooked?",
    "How long does milk last in the fridge?",
    "Which ingredients are in a pizza?",
    "Are vaccinations required to travel there?",
    "Is a visa needed to enter the country?",
    "How is a credit score improved?",
    "How many hours do babies sleep?",
    "What is the minimum wage?",
    "Which country has the largest army?",
    "What is the speed of light?",
    "What did the ancient Romans build?",
    "Explain the theory of relativity",
)
"""Questions that the world answers the same way for everybody."""

PERSONAL = (
    "What is my dog called?",
    "When is the appointment with the dentist?",
    "Where did we go for dinner?",
    "What did she give me for my birthday?",
    "What is he allergic to?",
    "Which gift did the friend like?",
    "What was decided in the meeting?",
    "What is the budget for the trip?",
    "When is the flight?",
    "Which hotel was booked?",
    "What is on the shopping list?",
    "What is the wifi password?",
    "How is the project going?",
    "What is left to do for the deadline?",
    "What did the doctor say?",
    "What did we talk about yesterday?",
    "Who is coming to the party?",
    "Where are the keys?",
    "Recommend a restaurant for dinner tonight",
    "Suggest a film to watch",
    "Plan a trip for the weekend",
    "What should be cooked tonight?",
    "What is her hobby?",
    "What does he do for work?",
    "How did she feel after the event?",
    "Why did they move house?",
    "What are the plans for the summer?",
    "What inspired her to start painting?",
    "Which book is she reading?",
    "What did he buy at the shop?",
    "Which database does the service use?",
    "How is the deployment done?",
    "Which version did the team choose?",
    "Why does the build fail?",
    "What did the client ask for?",
    "When does the lease end?",
    "How much was paid for the car?",
    "What instrument does the daughter play?",
    "What was the neighbour complaining about?",
    "Who won the game at the office party?",
)
"""Questions whose answer depends on whose they are."""

Vectors = NDArray[np.float32]


class Prototypes:
    """The examples' vectors, rows of length 1, and the comparison with them: tens of microseconds."""

    def __init__(self, general: Vectors, personal: Vectors) -> None:
        """``general`` and ``personal`` are of shape (examples, dimension)."""
        self._general = general
        self._personal = personal

    @classmethod
    async def embedded(
        cls, embedder: Embedder, general: Sequence[str] = GENERAL, personal: Sequence[str] = PERSONAL
    ) -> Self:
        """Embed the examples.

        Raises:
            EmbedderUnavailable: the embedder is not there (yet).
        """
        vectors = await embedder.embed_texts([*general, *personal])
        rows = np.asarray([parts[0] for parts in vectors], dtype=np.float32)
        return cls(rows[: len(general)], rows[len(general) :])

    def nearness(self, query: Sequence[float]) -> tuple[float, float]:
        """The mean cosine of the nearest general, and of the nearest personal examples."""
        vector = np.asarray(query, dtype=np.float32)
        return _nearest(self._general @ vector), _nearest(self._personal @ vector)

    def is_general(self, query: Sequence[float]) -> bool:
        """Whether the query (its vector, of length 1) is clearly nearer to the general examples."""
        general, personal = self.nearness(query)
        return general >= LEAST_COSINE and general - personal >= MARGIN


def _nearest(cosines: Vectors) -> float:
    count = min(NEAREST, len(cosines))
    return float(np.partition(cosines, -count)[-count:].mean())
