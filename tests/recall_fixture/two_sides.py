"""Questions about two things that were told at different times: both are needed for an answer."""

from tests.recall_fixture.cases import Case

TWO_SIDES = (
    # Which came first, which is more, how far apart, what together.
    Case(
        told=(
            (300, "I finally bought the green canoe, 640 euros with the paddles."),
            (140, "Picked up a second-hand tent from a colleague today."),
        ),
        asked="Which did I buy first, the canoe or the tent?",
        answers=("canoe", "tent"),
        misleads="Malta",
    ),
    Case(
        told=(
            (210, "My sister Hanna turned 31 today, we had cake."),
            (45, "It was Jonas's birthday yesterday, he is 29 now."),
        ),
        asked="Who is older, Hanna or Jonas?",
        answers=("Hanna", "Jonas"),
    ),
    Case(
        told=((80, "The plumber charged me 380 for the boiler."), (20, "The electrician wanted 95 for the doorbell.")),
        asked="What did I spend more on, the boiler or the doorbell?",
        answers=("380", "95"),
    ),
    Case(
        told=((400, "We moved into the house on Elm Road."), (70, "Our daughter Mia was born at 4 this morning!")),
        asked="How many months were there between the move to Elm Road and the birth of Mia?",
        answers=("Elm Road", "born"),
    ),
    Case(
        told=(
            (150, "Started taking cello lessons with Mr Brandt."),
            (35, "I played my first recital at the town hall."),
        ),
        asked="How long had I been taking cello lessons when I played my first recital?",
        answers=("Brandt", "recital"),
    ),
    Case(
        told=((33, "The new sofa cost 1,150."), (12, "Got the oak bookcase for 420, delivered.")),
        asked="How much did I pay in total for the sofa and the bookcase?",
        answers=("1,150", "420"),
    ),
    Case(
        told=((95, "My allergy test was on the 14th, nothing found."), (50, "Had the wisdom tooth taken out.")),
        asked="Did I have the allergy test or the wisdom tooth extraction first?",
        answers=("allergy test", "wisdom tooth"),
    ),
    Case(
        told=((260, "I ran the Lisbon half marathon in 1:52."), (25, "Half marathon in Ghent done, 1:47!")),
        asked="Where was I faster, in Lisbon or in Ghent?",
        answers=("1:52", "1:47"),
    ),
    Case(
        told=((120, "Habe das Zelt im Angebot gekauft, 210 Euro."), (40, "Das Kajak war dann doch teurer: 890 Euro.")),
        asked="Was habe ich zuerst gekauft, das Zelt oder das Kajak?",
        answers=("210", "890"),
    ),
    Case(
        told=((130, "Hoy he empezado las clases de cerámica."), (60, "Por fin he dejado de fumar, primer día.")),
        asked="¿Qué fue primero, las clases de cerámica o dejar de fumar?",
        answers=("cerámica", "fumar"),
    ),
    Case(
        told=((110, "J'ai adopté le chat Moka ce matin."), (15, "Nous avons acheté une voiture électrique.")),
        asked="Qu'est-ce que j'ai eu en premier, le chat ou la voiture ?",
        answers=("Moka", "voiture"),
    ),
    Case(
        told=((220, "My gym membership costs 34 a month."), (130, "The swimming pass is 22 a month.")),
        asked="Which is cheaper, my gym membership or my swimming pass?",
        answers=("34", "22"),
    ),
    # How many, which takes all of them.
    Case(
        told=(
            (170, "Read The Overstory, loved it."),
            (100, "Finished reading Piranesi last night."),
            (9, "Just finished The Left Hand of Darkness, great book."),
        ),
        asked="How many books have I finished?",
        answers=("Piranesi", "Left Hand"),
    ),
    Case(
        told=((190, "I went to the dentist about the crown."), (75, "Saw the dentist again, the crown sits now.")),
        asked="How many times did I see the dentist?",
        answers=("about the crown", "sits now"),
    ),
    Case(
        told=((250, "I bought a bonsai, a juniper."), (65, "My second bonsai is a maple.")),
        asked="How many bonsais do I have?",
        answers=("juniper", "maple"),
    ),
)
