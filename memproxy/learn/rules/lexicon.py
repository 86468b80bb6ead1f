"""Broad classes of words for statements that no special rule reads: lasting verbs, things that are owned for long."""

from memproxy.learn.rules.words import INSTRUMENTS


def _set(text: str) -> frozenset[str]:
    return frozenset(word.replace("_", " ") for word in text.split())


LASTING_VERBS = _set(
    """
    sell manufacture ship maintain manage lead coach mentor supervise host organise organize brew grow breed raise
    foster rent lease lodge commute volunteer sing dance paint draw knit sew crochet blog stream compose perform surf
    climb swim row ski skate dive hunt forage garden bake ferment restore tinker dabble practise practice box
    meditate pray fast tutor attend belong subscribe listen support suffer struggle react avoid invest donate export
    freelance consult specialise specialize illustrate translate photograph inspect import distribute supply cater
    tend mow heat homeschool babysit carpool bike cycle jog hike busk juggle fence rehearse moderate
    umpire referee officiate winter summer snore sleepwalk stutter lip-read sign vape smoke drink nap sleep wake
    conduct direct curate repair service rescue train teach lecture own live stay depend rely speak worship
    distil distill roast weave quilt whittle carve spin sculpt throw kayak canoe sail paddle fish camp
    """
)
"""Said in the present of “I” or “we”, these tell what somebody does for long, whatever follows."""

HABIT_VERBS = LASTING_VERBS | _set(
    """
    run make build write use take read watch keep follow edit design pay play eat cook work study wear drive ride fly
    go do have get walk freeze release deploy meet call visit order buy clean wash charge bill clock stop start begin
    finish train lift log track review plan pack prep shop batch-cook skip spend share see leave come put set check
    send feed water post publish record shoot film film mind collect drop pick bring
    """
)
"""Said with how often or when ("on Tuesdays", "every other week"), these tell a habit."""

LASTING_DOING = _set(
    """
    restoring renovating rebuilding training learning studying saving hosting raising fostering growing
    brewing knitting sewing crocheting researching recovering retraining teaching tutoring expecting converting
    remodeling remodelling redoing composing rehearsing directing curating breeding homeschooling commuting
    renting subletting dating interning apprenticing volunteering freelancing weaning potty-training coaching
    restarting translating co-writing illustrating landscaping rewilding digitising digitizing cataloguing
    """
)
"""What somebody is doing for weeks or longer."""

DISTINCT_THINGS = INSTRUMENTS | _set(
    """
    hearing_aid hearing_aids insulin_pump wheelchair pacemaker cpap cpap_machine epipen inhaler prosthesis crutches
    allotment greenhouse garden balcony patio sailboat boat campervan camper_van motorhome caravan motorbike
    motorcycle scooter e-bike ebike cargo_bike road_bike gravel_bike mountain_bike unicycle tandem van truck tractor
    beehive beehives bees hens ducks goats sheep alpacas aquarium terrarium fish_tank pond
    chicken_coop sourdough_starter kombucha kiln pottery_wheel loom spinning_wheel sewing_machine 3d_printer telescope
    drone synth synthesizer turntable record_player espresso_machine air_fryer thermomix
    bread_machine pizza_oven wood_stove wood_burner solar_panels heat_pump hot_tub sauna trampoline
    treadmill rowing_machine kayak canoe paddleboard surfboard snowboard skateboard holiday_house cabin cottage
    houseboat narrowboat farm vineyard orchard smallholding steam_deck playstation xbox ps5 kindle macbook
    ipad thinkpad raspberry_pi homelab nas toddler newborn etsy_shop food_truck dissertation
    aeropress moka_pot cello beekeeping_suit electric_car hybrid tesla
    """
) - _set("bass keyboard organ")
"""Things that tell something of whoever says “my” of them."""

DRUGS = (
    r"(?:levothyroxine|metformin|insulin|ibuprofen|sertraline|fluoxetine|citalopram|escitalopram|venlafaxine|"
    r"lithium|methotrexate|prednisone|prednisolone|warfarin|apixaban|lisinopril|ramipril|amlodipine|atorvastatin|"
    r"simvastatin|statins?|omeprazole|pantoprazole|methylphenidate|ritalin|concerta|adderall|elvanse|vyvanse|"
    r"antidepressants?|blood thinners?|beta[- ]blockers?|antihistamines?|antibiotics|isotretinoin|accutane|roaccutane|"
    r"ozempic|wegovy|mounjaro|hrt|testosterone|estrogen|the pill|birth control|an? inhaler|ssris?|semaglutide|"
    r"gabapentin|pregabalin|propranolol|bisoprolol|salbutamol|tamoxifen|immunosuppressants|steroids|"
    r"\w+(?:pril|sartan|statin|azole|prazole|oxetine|afil|olol|mab|tinib|cillin|mycin|triptan))"
)
"""Medicines, by name or by the ending of their names."""

PASSING_VERBS = _set(
    """
    want need think know guess mean see get try look wonder hope feel ask say tell believe suppose understand wish
    forget remember notice find keep doubt care agree disagree appreciate thank promise swear bet assume imagine hear
    expect plan intend like love hate enjoy prefer seem appear sound happen have do am was be make take give go come put
    set let call use run write read show change add remove delete open close click type paste copy send start stop end
    finish begin follow miss lose break worry struggle realise realize learn figure decide choose consider recommend
    suggest mention owe admit refer quote test check fix solve debug compile install download upload update upgrade
    receive turn switch move return pass hit face fail handle describe explain compare summarize summarise generate
    create build rename convert calculate compute got went did had made took gave came said told saw knew thought felt
    found kept left lost met ran sat sent slept spent stood wrote read shall may might must can could would should will
    cannot never not always just also only even still then now really actually all both each too either neither
    screwed messed love-hate vote wait stay sit stand leave bring buy pay help hear beg bought hold reckon gather
    recall feel-like second third propose submit apply request accept reject approve order print save load draw plot
    count sum sort filter match search replace map define declare return throw catch raise pass render deploy merge
    commit push pull rebase fork clone checkout query select insert join group split parse format dare laugh cry smile
    broke broken meant lent bent dealt chose froze spoke stole woke wore tore drove rode rose ate drank sang swam
    began grew knew
    threw flew blew drew fed led bled hid won hung dug stuck struck spun swore caught fought sought taught built burnt
    learnt dreamt spelt understood became overcame forgot forgave fell held heard laid paid shook sold shut split spread
    wept wound netflix google miss misread misspoke gonna dropped quit cut hurt cast cost
    apologize apologise insist argue joke lie swear yell die kill burn
    """
)
"""In the present of “I” these tell what is thought, wanted or done just now, unless it is said how often."""

PASSING_NOUNS = _set(
    """
    question problem issue error bug doubt feeling idea meeting minute minutes hour hours day days week weeks time
    headache cold fever cough deadline exam test interview appointment call task assignment homework essay presentation
    report list file string array table column columns row rows dataset data function class method script code variable
    loop query page doc text paragraph sentence sentences email mail message draft image photo picture screenshot
    document pdf
    spreadsheet sheet format number amount option options choice choices plan hunch guess preference opinion thought
    look chance trouble difficulty lot bit few couple clue request favor favour suggestion reason point theory
    hypothesis crush nightmare dream break guest guests friend friends questions problems issues errors meetings thing
    things stuff words word lines line items item numbers values value strings lists files images requests tasks tests
    branch commit repo model models prompt answer answers example examples recipe recipes ingredients leftovers eggs
    chicken rice pasta potatoes tomatoes onions milk flour stock budget right say urge word fun fever way sense need
    version versions container server servers endpoint api schema json csv equation integral matrix vector graph node
    nodes dataframe dictionary dict object objects element elements button form input output field fields regex pattern
    conversation argument fight dinner lunch breakfast party visitor visitors someone somebody people evening morning
    weekend afternoon night month months year years sec second seconds moment
    div span modal tab popup component cron loop tuple enum struct pointer
    thread process socket request header cookie token page widget dropdown sidebar navbar layout grid footer iframe
    svg canvas chart plot histogram dataframe notebook cell formula macro pivot
    """
)
"""Of these nobody says "I have a ..." for long."""

FEMALE = _set(
    """
    wife girlfriend fiancee fiancée daughter mother mum mom sister aunt niece grandmother grandma granddaughter
    mother-in-law sister-in-law stepmother stepmom half-sister goddaughter stepdaughter landlady
    """
)
"""Who is "she"."""

MALE = _set(
    """
    husband boyfriend fiance fiancé son father dad brother uncle nephew grandfather grandpa grandson
    father-in-law brother-in-law stepfather stepdad half-brother godson stepson landlord
    """
)
"""Who is "he"."""

NO_PET_NAMES = _set(
    """
    i the my our a an and but so if is are do does can could should would will what why how when where who dr
    vet after before then also ok hi hey help today tomorrow monday tuesday wednesday thursday friday saturday
    sunday january february march april may june july august september october november december we he she it
    they you took need got please any which for in on at to oh ah well hmm yes no yeah speaking btw sure thanks thank
    sorry actually since while as that this these those here there just now by first maybe great
    """
)
"""Words that stand with a capital at the beginning of a sentence, and so are no names there."""

OWN_VERBS = _set(
    """
    share write play wear drive ride study work cook fly teach edit shoot design build
    """
)
"""Verbs of habit that tell a lasting one without how often."""
