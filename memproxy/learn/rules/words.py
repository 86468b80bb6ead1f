"""Word lists that the rules ask: what kind of thing a noun names. Lower case, small, only what is common.

A word that is missing costs recall; a word that is wrong here costs precision.
"""


def _set(text: str) -> frozenset[str]:
    return frozenset(word.replace("_", " ") for word in text.split())


PARTNERS = _set("wife husband partner girlfriend boyfriend fiance fiancé fiancee fiancée spouse ex-wife ex-husband")
PARENTS = _set("mother father mom mum dad mother-in-law father-in-law stepmother stepfather stepmom stepdad")
KIN = _set(
    """
    sister brother son daughter kid child baby niece nephew cousin aunt uncle grandmother grandfather grandma grandpa
    grandson granddaughter twin stepson stepdaughter sister-in-law brother-in-law half-sister half-brother godson
    goddaughter
    """
)
OTHERS = _set(
    """
    friend best_friend boss manager colleague coworker co-worker roommate flatmate housemate neighbor neighbour doctor
    dentist therapist landlord landlady teacher coach mentor supervisor assistant accountant lawyer nanny babysitter
    trainer cofounder co-founder teammate gp vet
    """
)
PEOPLE = PARTNERS | PARENTS | KIN | OTHERS
ONE_OF_A_KIND = (
    PARTNERS | PARENTS | _set("boss manager best_friend landlord landlady supervisor doctor dentist gp vet therapist")
)
PLURAL_KIN = {
    **{f"{word}s": word for word in KIN | PARENTS | OTHERS},
    "children": "child",
    "babies": "baby",
    "daughters": "daughter",
}

PETS = {
    **{
        word: word
        for word in (
            "dog",
            "cat",
            "rabbit",
            "hamster",
            "parrot",
            "turtle",
            "tortoise",
            "snake",
            "lizard",
            "goldfish",
        )
    },
    **{
        word: word
        for word in (
            "horse",
            "pony",
            "guinea pig",
            "ferret",
            "budgie",
            "canary",
            "gecko",
            "chicken",
            "hedgehog",
        )
    },
    **dict.fromkeys(
        (
            "puppy",
            "doggo",
            "pup",
            "labrador",
            "poodle",
            "beagle",
            "dachshund",
            "corgi",
            "greyhound",
        ),
        "dog",
    ),
    **dict.fromkeys(
        (
            "golden retriever",
            "border collie",
            "german shepherd",
            "bulldog",
            "husky",
            "terrier",
        ),
        "dog",
    ),
    **dict.fromkeys(
        ("rescue dog", "retriever", "chihuahua", "pug", "whippet", "spaniel", "mutt"),
        "dog",
    ),
    **dict.fromkeys(("kitten", "kitty", "tabby", "siamese cat", "maine coon", "rescue cat"), "cat"),
    **dict.fromkeys(("bunny",), "rabbit"),
    "pet": "pet",
}

LANGUAGES = _set(
    """
    english german french spanish italian portuguese dutch swedish norwegian danish finnish polish czech slovak russian
    ukrainian greek turkish arabic hebrew persian farsi hindi urdu bengali tamil telugu punjabi marathi
    mandarin cantonese
    chinese japanese korean vietnamese thai indonesian malay tagalog swahili hungarian romanian bulgarian serbian
    croatian slovenian estonian latvian lithuanian icelandic irish welsh catalan basque galician latin esperanto
    afrikaans zulu sign_language american_sign_language brazilian_portuguese swiss_german
    """
)
DEMONYMS = LANGUAGES | _set(
    """
    american british australian canadian austrian swiss belgian brazilian mexican argentinian chilean colombian peruvian
    indian pakistani egyptian moroccan nigerian kenyan ethiopian ghanaian israeli lebanese iranian iraqi syrian
    scottish filipino taiwanese south_african new_zealander georgian armenian albanian bosnian european
    """
) - _set("latin esperanto mandarin cantonese sign_language farsi tagalog swahili hindi urdu tamil telugu")

OCCUPATIONS = _set(
    """
    bookbinder bricklayer caretaker cobbler courier forester glazier lifeguard mailman postman postwoman ranger referee
    roofer shepherd skipper stonemason tiler usher
    accountant actor actress actuary analyst animator archaeologist architect artist astronomer athlete attorney auditor
    author baker banker barber barista bartender biologist blacksmith blogger bookkeeper botanist broker builder butcher
    buyer carpenter cashier caregiver ceo cfo chauffeur chef chemist cinematographer cleaner clerk coder comedian
    composer conductor consultant contractor controller cook coordinator copywriter coo counselor counsellor cto curator
    dancer dentist dermatologist designer developer dietician dietitian diplomat director doctor dj drummer ecologist
    economist editor electrician engineer entrepreneur epidemiologist farmer filmmaker firefighter fisherman florist
    founder freelancer gardener geologist goldsmith guitarist hairdresser historian illustrator instructor interpreter
    investor janitor jeweler jeweller journalist judge lawyer lecturer librarian linguist locksmith machinist
    magician manager marketer mathematician mechanic medic meteorologist midwife miner minister model musician
    neurologist neuroscientist notary novelist nurse nutritionist officer operator optician optometrist painter
    paralegal
    paramedic pastor pediatrician pharmacist philosopher photographer physician physicist physiotherapist pianist pilot
    plumber podcaster poet policeman policewoman politician postdoc potter president principal producer professor
    programmer psychiatrist psychologist psychotherapist publisher realtor receptionist recruiter reporter researcher
    retiree sailor salesman salesperson saleswoman scientist sculptor secretary seamstress sergeant shopkeeper singer
    sociologist soldier solicitor specialist statistician steward stewardess streamer student stylist supervisor surgeon
    surveyor tailor teacher technician therapist trader trainer translator truck_driver bus_driver taxi_driver driver
    tutor undertaker veterinarian vet videographer violinist waiter waitress welder writer youtuber zoologist
    administrator sysadmin sre dba intern apprentice trainee undergraduate graduate freshman sophomore strategist
    planner organizer dispatcher inspector technologist radiologist cardiologist oncologist anesthesiologist
    co-founder cofounder owner partner lead copyeditor subtitler beekeeper winemaker brewer
    """
)
WEAK_OCCUPATIONS = _set(
    "model lead partner owner driver cook graduate minister judge principal officer operator builder buyer president"
)
"""Said of many things: a trade only after "work as"."""

DIETS = _set(
    """
    vegan vegetarian pescatarian pescetarian flexitarian lactose_intolerant gluten_intolerant gluten-free celiac coeliac
    kosher halal keto paleo dairy-free lactose-intolerant
    """
)
CONDITIONS = _set(
    """
    asthma diabetes type_1_diabetes type_2_diabetes adhd add autism epilepsy migraines migraine arthritis hypertension
    high_blood_pressure low_blood_pressure insomnia anxiety depression eczema psoriasis celiac_disease coeliac_disease
    hay_fever ibs crohn's_disease crohn's endometriosis pcos hypothyroidism sleep_apnea sleep_apnoea tinnitus vertigo
    scoliosis dyslexia osteoporosis anemia anaemia glaucoma lupus ms multiple_sclerosis gout a_bad_back a_bad_knee
    a_heart_condition chronic_back_pain back_pain bipolar_disorder ocd ptsd dyscalculia color_blindness
    a_pacemaker gastritis acid_reflux rosacea fibromyalgia
    """
)
POSSESSIONS = _set(
    """
    car bike bicycle motorcycle motorbike scooter boat sailboat kayak canoe van campervan camper rv truck house
    apartment
    flat condo cottage cabin garden greenhouse balcony guitar piano violin cello drum_kit keyboard ukulele saxophone
    trumpet flute laptop macbook computer pc desktop tablet ipad iphone phone smartphone camera printer 3d_printer
    telescope microscope drone console playstation xbox switch tv television projector turntable record_player
    e-reader kindle watch smartwatch treadmill rowing_machine bread_maker espresso_machine coffee_machine air_fryer
    sewing_machine surfboard snowboard skateboard e-bike ebike tent server nas raspberry_pi thermomix pool sauna
    allotment farm vineyard shop store bakery restaurant cafe company startup tesla toyota volvo honda bmw vw volkswagen
    audi ford mercedes subaru mazda fiat skoda porsche thinkpad pixel lens headphones synthesizer banjo mandolin harp
    """
)
VEHICLES = _set(
    """
    car bike bicycle motorcycle motorbike scooter boat van campervan truck tesla toyota volvo honda bmw vw volkswagen
    audi ford mercedes subaru mazda fiat skoda porsche e-bike ebike kia hyundai nissan jeep
    """
)
PASSING_PURCHASES = _set(
    """
    coffee ticket tickets sandwich beer drink drinks snack snacks milk bread groceries food lunch dinner pizza gift
    present subscription round cup bottle pack bag lot bit few coupon burger cake cookie croissant
    """
)
FOOD = _set(
    """
    food pizza sushi pasta coffee tea chocolate cheese meat fish seafood chicken beef pork tofu rice noodles ramen curry
    salad soup bread cake ice_cream fruit vegetables mushrooms olives cilantro coriander garlic onions tomatoes peanuts
    nuts shellfish shrimp eggs milk dairy gluten wine beer whisky whiskey gin cocktails matcha espresso cappuccino tacos
    burritos burgers steak dumplings spicy_food sweets candy dessert desserts breakfast brunch cuisine dish drink meal
    snack restaurant pineapple broccoli avocado oat_milk soy strawberries apples bananas lasagna risotto falafel hummus
    """
)
MUSIC = _set(
    "music jazz rock metal techno hip-hop opera band song songs album singer composer musician artist blues folk"
)
MEDIA = _set(
    "movie movies film films book books novel novels series show shows author podcast podcasts director anime manga"
)
SPORTS = _set(
    """
    tennis football soccer basketball volleyball badminton squash golf hockey rugby cricket baseball chess table_tennis
    handball padel poker darts pool snooker video_games board_games softball pickleball lacrosse water_polo bridge
    """
)
INSTRUMENTS = _set(
    """
    guitar piano violin cello drums bass ukulele saxophone trumpet flute clarinet viola harp banjo mandolin accordion
    keyboard organ trombone harmonica oboe bass_guitar electric_guitar classical_guitar double_bass
    """
)
ACTIVITIES = _set(
    """
    hiking climbing bouldering running cycling swimming yoga pilates skiing snowboarding surfing sailing kayaking rowing
    dancing painting drawing knitting crocheting sewing pottery gardening baking cooking photography birdwatching
    fishing camping reading writing gaming woodworking running jogging horse_riding horseback_riding martial_arts judo
    karate boxing kickboxing crossfit salsa tango singing chess karate scuba_diving diving travelling traveling
    """
)
TOOLS = {
    **dict.fromkeys(
        (
            "postgres",
            "postgresql",
            "mysql",
            "mariadb",
            "sqlite",
            "mongodb",
            "oracle",
            "dynamodb",
            "cockroachdb",
            "cassandra",
        ),
        "database",
    ),
    **dict.fromkeys(
        (
            "vim",
            "neovim",
            "emacs",
            "vscode",
            "vs code",
            "intellij",
            "pycharm",
            "sublime",
            "sublime text",
            "zed",
            "cursor",
            "helix",
        ),
        "editor",
    ),
    **dict.fromkeys(
        (
            "jenkins",
            "github actions",
            "gitlab ci",
            "circleci",
            "buildkite",
            "teamcity",
            "travis",
        ),
        "ci",
    ),
    **dict.fromkeys(
        (
            "aws",
            "gcp",
            "google cloud",
            "azure",
            "hetzner",
            "heroku",
            "fly.io",
            "vercel",
            "digitalocean",
        ),
        "cloud",
    ),
    **dict.fromkeys(
        (
            "windows",
            "linux",
            "macos",
            "ubuntu",
            "debian",
            "fedora",
            "arch",
            "arch linux",
            "nixos",
            "windows 11",
        ),
        "operating_system",
    ),
    **dict.fromkeys(("jira", "linear", "asana", "trello", "clickup"), "issue_tracker"),
    **dict.fromkeys(("slack", "microsoft teams", "discord", "mattermost"), "team_chat"),
}
CHANGING_MODES = _set("mode theme seat units format indentation style editor browser temperature size roast side")
"""Things of which a person prefers one at a time ("dark mode", "aisle seats")."""

NOT_A_NAME = _set(
    """
    a an the not so very just here there back done fine good ok okay sorry sure happy glad sad tired hungry ready
    interested looking trying going working thinking wondering using having getting making doing writing learning new
    old young busy free late early sick ill well better curious confused stuck lost afraid aware able allergic vegan
    vegetarian married single divorced engaged pregnant retired unemployed self-employed from in at on with into all
    your my his her their our its this that what who where when why how me you he she it we they i mr mrs ms dr anything
    whatever later tomorrow today home outside crazy excited proud bored angry worried nervous scared actually really
    also still now currently always never often usually maybe about currently left-handed right-handed colorblind human
    catholic christian muslim jewish hindu buddhist atheist republican democrat gay lesbian bisexual trans queer
    autistic diabetic deaf blind dyslexic gen team dad mom mum god on-call remote
    """
)
DAY_NAMES = _set("monday tuesday wednesday thursday friday saturday sunday")
MONTH_NAMES = _set(
    "january february march april may june july august september october november december jan feb mar apr jun jul "
    "aug sep sept oct nov dec"
)
