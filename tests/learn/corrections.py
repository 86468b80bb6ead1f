"""Everyday corrections of different kinds, as an extractor reads them that makes no mistake."""

from typing import Any, NamedTuple


class Said(NamedTuple):
    """A statement as it is extracted, the words it is from, and its triple as a model might name it."""

    content: str
    evidence: str
    triple: tuple[str, str, str] | None = None
    replaces: str | None = None

    def candidate(self, *, named: bool) -> dict[str, Any]:
        made: dict[str, Any] = {"content": self.content, "evidence": self.evidence}
        if named and self.triple is not None:
            made |= dict(zip(("subject", "predicate", "object"), self.triple, strict=True))
        return made | ({"intent": "correct", "replaces": self.replaces} if self.replaces else {})


class Correction(NamedTuple):
    """What is told first, message by message, then the message that changes some of it."""

    name: str
    told: tuple[tuple[str, tuple[Said, ...]], ...]
    then: str
    extracted: tuple[Said, ...]

    @property
    def before(self) -> set[str]:
        return {said.content for _, extracted in self.told for said in extracted}

    @property
    def ended(self) -> set[str]:
        """What holds no more: exactly what a statement replaces."""
        return {said.replaces for said in self.extracted if said.replaces}

    @property
    def after(self) -> set[str]:
        return (self.before - self.ended) | {said.content for said in self.extracted}


CORRECTIONS = (
    Correction(
        "an office shared, then not, and where the colleague went",
        (
            (
                "I share an office with Pia, she brings the good coffee.",
                (
                    Said(
                        "User shares an office with Pia.",
                        "I share an office with Pia",
                        ("user", "shares_office_with", "Pia"),
                    ),
                ),
            ),
            (
                "My desk is by the window.",
                (
                    Said(
                        "User's desk is by the window.",
                        "My desk is by the window",
                        ("user", "desk_place", "by the window"),
                    ),
                ),
            ),
        ),
        "Pia works in Lyon now, so I've got the office to myself.",
        (
            Said("User's colleague Pia works in Lyon.", "Pia works in Lyon now", ("Pia", "works_in", "Lyon")),
            Said(
                "User has the office to herself.",
                "I've got the office to myself",
                ("user", "shares_office_with", "nobody"),
                "User shares an office with Pia.",
            ),
        ),
    ),
    Correction(
        "a diet given up in part",
        (
            (
                "I've been vegetarian since school.",
                (Said("User is vegetarian.", "I've been vegetarian since school", ("user", "diet", "vegetarian")),),
            ),
            (
                "My brother Tobias is vegetarian too.",
                (
                    Said(
                        "User's brother Tobias is vegetarian.",
                        "My brother Tobias is vegetarian too",
                        ("Tobias", "diet", "vegetarian"),
                    ),
                ),
            ),
        ),
        "Confession: I eat meat again, but no pork.",
        (
            Said(
                "User eats meat again, but no pork.",
                "I eat meat again, but no pork",
                ("user", "diet", "eats meat again, but no pork"),
                "User is vegetarian.",
            ),
        ),
    ),
    Correction(
        "a child's class, with another child in the class it was",
        (
            (
                "Jonas is in class 4b.",
                (Said("User's son Jonas is in class 4b.", "Jonas is in class 4b", ("Jonas", "class", "4b")),),
            ),
            (
                "Mira started in 4b as well, with Mr Oduya.",
                (
                    Said(
                        "User's daughter Mira is in class 4b with Mr Oduya.",
                        "Mira started in 4b as well, with Mr Oduya",
                        ("Mira", "class", "4b"),
                    ),
                ),
            ),
        ),
        "They moved Jonas up a year, so it's 5a for him.",
        (
            Said(
                "User's son Jonas is in class 5a.",
                "They moved Jonas up a year, so it's 5a for him",
                ("Jonas", "class", "5a"),
                "User's son Jonas is in class 4b.",
            ),
        ),
    ),
    Correction(
        "a date that moves, among other dates of the month",
        (
            (
                "Gran's 80th is on 14 June at the Crown.",
                (
                    Said(
                        "User's grandmother turns 80 on 14 June and celebrates at the Crown.",
                        "Gran's 80th is on 14 June at the Crown",
                        ("user's grandmother", "birthday_party", "14 June"),
                    ),
                ),
            ),
            (
                "The boiler man comes on 14 June, of all days.",
                (
                    Said(
                        "User's boiler is serviced on 14 June.",
                        "The boiler man comes on 14 June",
                        ("user", "boiler_service", "14 June"),
                    ),
                ),
            ),
        ),
        "We've shifted Gran's do to the 21st, the Crown was full.",
        (
            Said(
                "User's grandmother celebrates her 80th birthday on 21 June.",
                "We've shifted Gran's do to the 21st",
                ("user's grandmother", "birthday_party", "21 June"),
                "User's grandmother turns 80 on 14 June and celebrates at the Crown.",
            ),
        ),
    ),
    Correction(
        "a medicine swapped, another kept",
        (
            (
                "I take 20 mg of citalopram in the mornings.",
                (
                    Said(
                        "User takes 20 mg of citalopram in the mornings.",
                        "I take 20 mg of citalopram in the mornings",
                        ("user", "takes", "citalopram"),
                    ),
                ),
            ),
            (
                "Also 50 mcg of thyroxine.",
                (Said("User takes 50 mcg of thyroxine.", "Also 50 mcg of thyroxine", ("user", "takes", "thyroxine")),),
            ),
        ),
        "Doctor took me off citalopram, I'm on 50 mg of sertraline now.",
        (
            Said(
                "User takes 50 mg of sertraline.",
                "I'm on 50 mg of sertraline now",
                ("user", "takes", "sertraline"),
                "User takes 20 mg of citalopram in the mornings.",
            ),
        ),
    ),
    Correction(
        "a thing sold",
        (
            (
                "I ride a red Vespa to work.",
                (
                    Said(
                        "User rides a red Vespa to work.", "I ride a red Vespa to work", ("user", "rides", "red Vespa")
                    ),
                ),
            ),
            (
                "Vespa parts come from Gino in Turin.",
                (
                    Said(
                        "User gets Vespa parts from Gino in Turin.",
                        "Vespa parts come from Gino in Turin",
                        ("user", "gets_vespa_parts_from", "Gino"),
                    ),
                ),
            ),
        ),
        "Sold the Vespa to my neighbour for 900 euros.",
        (
            Said(
                "User has sold the red Vespa to a neighbour for 900 euros.",
                "Sold the Vespa to my neighbour for 900 euros",
                ("user", "sold", "red Vespa"),
                "User rides a red Vespa to work.",
            ),
        ),
    ),
    Correction(
        "a rule for answers lifted",
        (
            (
                "Never use emojis with me.",
                (Said("User wants no emojis in answers.", "Never use emojis with me", ("user", "emojis", "none")),),
            ),
            (
                "And keep answers short.",
                (Said("User wants short answers.", "And keep answers short", ("user", "answer_length", "short")),),
            ),
        ),
        "ok the emoji ban is lifted, one or two are fine",
        (
            Said(
                "User is fine with one or two emojis in answers.",
                "the emoji ban is lifted, one or two are fine",
                ("user", "emojis", "one or two"),
                "User wants no emojis in answers.",
            ),
        ),
    ),
    Correction(
        "who does something, not what is done",
        (
            (
                "Ines picks up the twins on Tuesdays.",
                (
                    Said(
                        "Ines picks up user's twins on Tuesdays.",
                        "Ines picks up the twins on Tuesdays",
                        ("Ines", "picks_up", "twins"),
                    ),
                ),
            ),
            ("Ines teaches cello.", (Said("Ines teaches cello.", "Ines teaches cello", ("Ines", "teaches", "cello")),)),
        ),
        "My father in law does the Tuesday pick-up from now on.",
        (
            Said(
                "User's father-in-law picks up the twins on Tuesdays.",
                "My father in law does the Tuesday pick-up from now on",
                ("user's father-in-law", "picks_up", "twins"),
                "Ines picks up user's twins on Tuesdays.",
            ),
        ),
    ),
    Correction(
        "a number among numbers",
        (
            ("We keep 14 hens.", (Said("User keeps 14 hens.", "We keep 14 hens", ("user", "number_of_hens", "14")),)),
            (
                "The coop is 14 square metres.",
                (
                    Said(
                        "User's hen coop is 14 square metres.",
                        "The coop is 14 square metres",
                        ("user", "hen_coop_size", "14 square metres"),
                    ),
                ),
            ),
        ),
        "The fox got three, we're down to eleven.",
        (Said("User keeps 11 hens.", "we're down to eleven", ("user", "number_of_hens", "11"), "User keeps 14 hens."),),
    ),
    Correction(
        "a plan turned round, said in the old one's words",
        (
            (
                "We're flying to Oslo with Maud in May.",
                (
                    Said(
                        "User is flying to Oslo with Maud in May.",
                        "We're flying to Oslo with Maud in May",
                        ("user", "trip", "Oslo"),
                    ),
                ),
            ),
            (
                "Maud is scared of flying.",
                (
                    Said(
                        "User's friend Maud is scared of flying.",
                        "Maud is scared of flying",
                        ("Maud", "afraid_of", "flying"),
                    ),
                ),
            ),
        ),
        "Change of plan: Oslo in May by train and ferry, and without Maud.",
        (
            Said(
                "User is going to Oslo in May by train and ferry, without Maud.",
                "Oslo in May by train and ferry, and without Maud",
                ("user", "trip", "Oslo"),
                "User is flying to Oslo with Maud in May.",
            ),
        ),
    ),
    Correction(
        "one sentence that replaces, named like a third statement",
        (
            (
                "The tests run on Jenkins.",
                (
                    Said(
                        "User's tests run on Jenkins.", "The tests run on Jenkins", ("user", "tests_run_on", "Jenkins")
                    ),
                ),
            ),
            (
                "Our docs build runs on GitHub Actions.",
                (
                    Said(
                        "User's docs are built on GitHub Actions.",
                        "Our docs build runs on GitHub Actions",
                        ("user", "runs_on", "GitHub Actions"),
                    ),
                ),
            ),
        ),
        "Jenkins is history, the tests run on Buildkite.",
        (
            Said(
                "User's tests run on Buildkite.",
                "the tests run on Buildkite",
                ("user", "runs_on", "Buildkite"),
                "User's tests run on Jenkins.",
            ),
        ),
    ),
    Correction(
        "two changes in one message, and a third thing told",
        (
            (
                "I work at Halden Foods as a food chemist.",
                (
                    Said(
                        "User works at Halden Foods as a food chemist.",
                        "I work at Halden Foods as a food chemist",
                        ("user", "works_at", "Halden Foods"),
                    ),
                ),
            ),
            (
                "I commute by tram, line 6.",
                (
                    Said(
                        "User commutes by tram line 6.",
                        "I commute by tram, line 6",
                        ("user", "commutes_by", "tram line 6"),
                    ),
                ),
            ),
        ),
        "New job! I run the lab at Brightwell since Monday, it's a ten minute walk, and they gave me my own kettle.",
        (
            Said(
                "User runs the lab at Brightwell.",
                "I run the lab at Brightwell since Monday",
                ("user", "works_at", "Brightwell"),
                "User works at Halden Foods as a food chemist.",
            ),
            Said(
                "User walks to work in ten minutes.",
                "it's a ten minute walk",
                ("user", "commutes_by", "walking"),
                "User commutes by tram line 6.",
            ),
            Said("User has a kettle of her own at work.", "they gave me my own kettle", ("user", "has_kettle", "own")),
        ),
    ),
)
