"""Words that tell a name from a thing where nothing is written with capitals: names, things, and what people do."""

RELATIVES = frozenset(
    """
    aunt auntie aunty dad daddy grandad granddad grandfather grandma grandmother grandpa granny hubby mama mom mommy
    mum mummy nan nana papa uncle
    """.split()  # noqa: SIM905
)
"""Without an article and without "my", they are the user's own."""

GIVEN_NAMES = RELATIVES | frozenset(
    """
    aaron adam adriana agnes ahmed aisha alan alejandra alejandro alessandro alex alexander alexandra alfie ali
    alice alina amanda amelia amina amir amy ana anastasia anders andrea andreas andrei andrew andy angela anika
    anita anja anna anne annie anton antonio anya arjun arthur astrid aurora ava ayesha bailey barbara beatrice
    bella ben benjamin benny bernard beth betty bianca bjorn bob boris brandon brenda brian bruno buddy camila
    camille carla carlos carmen carol carolina caroline catherine cecilia charles charlie charlotte chen chiara
    chloe chris christian christina christine christopher claire clara claudia coco colin connor craig cristina
    daisuke daniel daniela danny dave david debbie deborah denise dennis derek diana diego dilip dimitri dmitri
    dominic donna doris doug dylan eddie edith eduardo edward elena eleni eli elias elif elisa eliza elizabeth ella
    ellen ellie elsa emil emily emma emre enrique eric erica erik esra esther ethan eva evelyn fabian farah fatima
    fatma felipe felix fernanda fernando fido filip finn fiona francesca francesco francisco franz frida fritz
    gabriel gabriela gareth gary george gerald gianna giorgio giovanni giulia gloria gordon greg greta guillermo
    gustav hana hannah hans hao harry hassan hector heidi helen helena henrik henry hiroshi hugo ian ibrahim igor
    ines ingrid irene irina isabel isabella isabelle ivan jackie jake jakob jakub james jamie jan jana jane janet
    jason javier jay jean jeff jen jenna jennifer jenny jeremy jessica jill jim jimmy joan joanna joe joel johan
    johanna john johnny jonas jonathan jorge jose josef joseph josh joshua juan juana judith judy julia julian julie
    julio jun jurgen justin kai karen karim karin karl karolina kate katharina katherine kathy katie katja keiko
    keith kelly ken kenji kevin khalid kiran klaus kristina krzysztof kyle lara lars laura lauren lea leah lena leo
    leon leonardo leonie liam lily linda ling lisa liz logan lola lorenzo louis louise luca lucas lucia lucy luis
    luisa lukas luna maja malik manuel marcel marco marcus margaret maria mariam marie marina mario marta martha
    martin mary mateo mathilde matt matteo matthew maya mehmet mei melanie melissa michael michelle miguel mike mila
    milan milo minh miriam mochi mohamed mohammed molly monica monika muhammad nadia nancy naomi natalia natalie
    natasha nathan neha neil nicholas nick nico nicola nicole nikhil nikita nikolai nils nina noah noor nora nour
    olga oliver olivia omar oscar oskar owen pablo pamela paolo patricia patrick paul paula pauline paulo pavel
    pedro penny peter petra phil philip philippe pierre pilar piotr priya rachel rafael rahul raj ravi raymond
    rebecca renata rex ricardo richard rita robert roberto robin rocky rodrigo roland rosa ross roxanne ruth ryan
    sabine sally salma sam samantha samir samuel sandra sanjay sara sarah scott sean sebastian selma sergei sergio
    shreya silvia simba simon simone sofia sophia sophie stefan stefano stella stephanie stephen steve steven stuart
    sunita susan susanne suzanne sven sylvia tanya tara tariq teresa theo theodore theresa thomas tim timothy tina
    tobias todd tom tomas tommy tony tracy uma ursula valentina valeria vanessa vera veronica victor victoria vijay
    viktor vincent viola vivian vladimir walter wanda wei wendy werner whiskers xavier yasmin yasmine yuki yusuf
    yuto yvonne zainab zara ziggy zoe zofia zuzana
    """.split()  # noqa: SIM905
)
"""Common given names of many languages, without those that are common words as well (Rose, Will, Mark, Grace)."""

THINGS = frozenset(
    """
    air alcohol algebra aluminium aluminum ammonia anxiety art arthritis aspirin asthma autumn bacon bacteria baking
    bamboo basil beef beer bleach blood bluetooth brass bread broccoli broth butter caffeine cake calcium cancer
    carbon cardboard cartilage caviar celery cement cereal cheese chemotherapy chess chicken chlorine chocolate
    cholesterol christmas cinnamon clay coal cocoa coffee concrete copper corn cotton cream cricket curry day
    daylight death debt decaf democracy depression dew diabetes diesel dna dough duck dust easter electricity energy
    english espresso estrogen fat fatigue fiber fibre fire fish flour food football french fruit fuel fungi garlic
    gas gasoline gelatin german ginger glass glucose glue gluten gold golf granite grass gravity hail halloween ham
    hay heat helium henna history hockey honey html humidity humor humour hydrogen ibuprofen ice inflation influenza
    insulin intermission internet iodine iron ivory jade japanese java javascript jazz jelly juice kale karma
    ketchup lactose lamb lasagna latin lava law lead leather lemonade lettuce life light lightning linen literature
    litmus love luck lymph magic magma magnesium maize malaria marble margarine math maths mayo mayonnaise meat
    medicine melatonin memory metal methane milk mold money month morphine mortgage mould mud mustard nature neon
    nicotine night nitrogen nothing nylon oat oatmeal oil osmosis oxygen ozone paper paracetamol pasta peace
    penicillin pepper petrol philosophy physics pizza plasma plastic platinum poker pollen polyester popcorn
    porcelain pork potassium poverty progesterone protein puberty python quartz quicksand quinoa radon rain rayon
    resin rice rock rubber rugby rum rust saffron salad salmon salt sand saturn sauce school science seawater
    serotonin sex shampoo silicon silk silver skin sleep smoke smoking snow soap soccer society sodium software soil
    sound soup sourdough soy space spaghetti spanish spinach spring sql starch steak steam steel stone stress sugar
    sulfur summer sunlight sushi sweat tap taro tax tea tennis testosterone thanksgiving thunder time tin titanium
    tobacco tofu tooth traffic tuna turkey turmeric uranium vanilla vinegar vitamin vodka war water wax weather week
    wheat whiskey whisky wifi wind wine winter wood wool work xml year yeast yoga yogurt youtube zinc
    """.split()  # noqa: SIM905
)
"""What stands without an article in general questions: materials, food, illnesses, sports, seasons."""

FAMOUS = frozenset(
    """
    allah amazon america anybody anyone apple aristotle babylon bach beethoven beyonce biden bitcoin buddha buddhism
    caesar children christianity cleopatra congress covid darwin dickens diwali earth eid einstein elvis everest
    everybody everyone facebook fifa galileo gandhi god google hanukkah hercules hinduism hitler humanity instagram
    irs islam jesus judaism jupiter kennedy lenin lent lincoln linux madonna man mandela mankind mars men mercury
    michelangelo microsoft mozart napoleon nasa nasdaq nato neptune netflix newton nobody obama parliament passover
    people picasso plato pluto putin ramadan rembrandt rome santa saturn shakespeare socrates somebody someone
    stalin tesla tolkien trump twitter uranus venus wikipedia windows woman women youtube zeus
    """.split()  # noqa: SIM905
)
"""People, companies and peoples that everybody knows by one name, in whatever they do."""

OWNERS = frozenset(
    """
    achilles adam aesop alzheimer bachelor baker body boyle butcher child children city company country crohn day
    doctor dominos driver euler farmer father fermat friday government halley he heart here hodgkin hooke how it
    kellogg kid kids king lay let levi life lloyd master mcdonald mcdonalds men monday month moon moore mother
    murphy nature noah occam ohm parkinson pascal people person planck pythagoras queen saint saturday schrodinger
    she sotheby sun sunday that there today tomorrow traveler valentine valentines week wendy what when where who
    why women world writer year yesterday zeno
    """.split()  # noqa: SIM905
)
"""What stands before 's without being the name of somebody the user knows."""

VERBS = frozenset(
    """
    accept ache achieve act add admit adopt adore advise afford agree aim apologise apologize apply appreciate argue
    arrange arrive ask attend bake beat become begin believe belong bite book borrow break bring bruise build bump
    buy call camp cancel care carry cast catch celebrate change chew choose claim clean climb collect come compete
    complain complete compose conquer consider convince cook cope count cover crash create crochet cross cry cut
    cycle dance date decide decline decorate deliver describe deserve design develop die disagree discover dislike
    do donate draw dream dress drink drive drop earn eat embark encounter end enjoy enrol enroll enter escape
    exchange exercise expect explain explore express face fail fall feel fight figure fill find finish fit fix fly
    follow forget forgive found gain get give go graduate grow guess handle hang happen hate have hear help hide
    hike hire hit hold hope host hug hurt imagine improve injure inspire intend invent invest invite job jog join
    joke jump keep kick kiss knit know land laugh lead lean learn leave lend let lie like listen live look lose love
    make manage mark marry mean meet mention message mind miss move name need notice offer open order own pack paint
    park participate pass pay perform phone pick plan plant play practice practise prefer prepare pretend promise
    propose prove pull pursue push put quit raise react read realise realize receive recommend record recover refuse
    regret relate relax rely remember remind renew rent repair reply reschedule research resign retire return ride
    ring rule run save say see seem sell send serve sew share shop show sign sing sit ski skip sleep smile smoke
    sneak sneeze snore speak spend spill spot stand start stay steal stop stroke struggle study suffer suggest
    support surprise swallow swear swim take talk taste teach tear tell text thank think throw train travel treat
    trip try turn type use vacation visit volunteer vomit vote wait wake walk want warn wash watch wear weigh win
    wish wonder work worry wrap write yell
    """.split()  # noqa: SIM905
)
"""What somebody does, in its plain form."""

IRREGULAR = frozenset(
    """
    become been begun bitten bought broken brought built caught chosen come cut done drawn driven drunk eaten fallen
    felt forgotten found given gone got gotten grown had heard held hurt kept known left lent lost made met paid put
    quit read ridden run said seen sent sold spent spoken stolen stood swum taken taught thought thrown told torn
    won worn written
    """.split()  # noqa: SIM905
)
"""Participles of such verbs that do not end in -ed."""

THINGS_DO = frozenset(
    """
    absorb accept act add affect allow attract become begin boil boost break burn cause change clean close come
    conduct contain cost count cover damage decrease dehydrate differ discover dissolve do end expire fall feel form
    freeze get go grow happen have help hold hurt improve increase keep kill last lead let look lower make mean melt
    move need offer open pay prevent produce raise reach react reduce release remove repel require rise rot run sell
    serve smell spread stand start stay take taste travel treat trigger turn use weigh work
    """.split()  # noqa: SIM905
)
"""What things do as well, so that it does not tell a name by itself."""

STATES = frozenset(
    """
    afraid allergic angry annoyed anxious ashamed asleep at available away back baptised baptized bitten bored born
    bringing busy called christened coming crying dating diagnosed due engaged excited expecting fired fond free
    frightened getting going groomed grounded guilty happy hiding hired home homesick hospitalised hospitalized
    impressed injured inspired insured interested into jealous late living lonely mad married moving named nervous
    neutered obsessed off ok okay pregnant promoted proud ready related retired retiring sad scared scheduled seeing
    shy sick single sleeping sore spayed staying studying surprised teething terrified thinking tired unhappy unwell
    upset vaccinated weaned worried
    """.split()  # noqa: SIM905
)
"""What somebody is or was."""

PEOPLE_DO_TOO = frozenset(
    """
    buy change come do fall feel get go have help keep look lose make move need pay run start stay stop take travel
    turn use work
    """.split()  # noqa: SIM905
)
"""Of these, what people are asked about as often."""
