"""What small talk looks like: about the assistant itself, and jokes."""

from memproxy.core.gate_leads import ASK
from memproxy.core.gate_match import any_of, cued

_THANKS = r"(?:thanks|thank you|thx|thank u|many thanks|cheers)"
_HELLO = r"(?:(?:hi|hello|hey|good (?:morning|afternoon|evening)|well|oh|hi there|hello there|hey there)[ ,.!]*){0,2}"
_ANSWER = r"(?:answer|reply|response|help|assistance|information|info|advice|explanation|time|support|tip|tips|update)"
_YES_NO = (
    r"(?:yes|yep|yeah|yup|no|nope|nah|sure|maybe|perhaps|possibly|ok|okay|correct|right|exactly|indeed"
    r"|true|false|wrong|incorrect|absolutely|definitely|certainly|negative|affirmative|unsure|might be"
    r"|not sure|of course)"
)
_TRUTH = (
    r"(?:true|false|right|correct|wrong|incorrect|fine|good|great|perfect|nice|cool|awesome|ok|okay|not "
    r"true|not right|not correct|not it|it|a no|a yes|a maybe|a lie|a falsehood|not)"
)

SMALLTALK_WHOLE = any_of(
    r"how (?:you|the ai|things|everything) (?:are|is|feel)(?: doing| going| feeling)?(?: today| now)?",
    r"(?:who|what|when|where|how old) (?:you are|your \w+(?: \w+)? (?:is|are))(?: called| named| from)?",
    r"(?:the )?(?:pets|hobbies) (?:that )?you have|your (?:age|name|maker|creator|boss|hobbies|pets|birthday"
    r"|purpose)",
    r"what (?:(?:kinds?|types?|sorts?) of )?(?:things )?(?:you can|can you) (?:do"
    r"|help(?: me)?(?: with)?)(?: for me)?",
    r"what (?:would you like|do you want|should i use) (?:me )?to call you|who am i (?:speaking|talking) (?:with|to)",
    r"(?:is this|are you|your|you're) (?:a |an )?(?:bot|robot|human|machine|ai|computer|real person)",
    r"(?:it |both |either(?: one)? |that |this )?(?:could|might|may)(?: well)?(?: be| go either way)?",
    r"(?:my )?answer(?: to (?:your|the|that) question)? (?:is|would be) (?:a )?(?:yes|no|maybe)|(?:yes"
    r"|no|maybe) is my answer",
    r"(?:it was |it's been |i )?(?:a pleasure|enjoyed)(?: talking| chatting| speaking)?(?: (?:to"
    r"|with) you)?(?:,? (?:bye|goodbye))?",
    r"enjoy your (?:day|evening|weekend|night)(?:,? (?:bye|goodbye))?|roger that|10-4|you got (?:that"
    r"|it) (?:wrong|right)",
    r"(?:that|your) (?:answer|reply|response|help) was (?:very |really |so )?(?:helpful|good|great"
    r"|useful)(?:,? (?:thanks|thank you))?",
    r"i (?:appreciate|am grateful for|'m grateful for) (?:the|your|all the|all your) (?:help|support"
    r"|answer|time)(?: from you)?",
    rf"{_HELLO}how (?:are|r) (?:you|u|things|ya)(?: (?:doing|feeling|today|going|all|right now|this \w+)){{0,2}}",
    rf"{_HELLO}how(?:'s| is) (?:it|everything|life|your day)(?: going)?(?: today| so far)?",
    rf"{_HELLO}(?:what'?s|what is) (?:up|new|happening|going on)(?: with you)?",
    rf"{_HELLO}how do you do",
    r"(?:it'?s |it is )?(?:very |so )?(?:nice|good|great|pleased) (?:to (?:meet|see|talk to) you|talk"
    r"|chat)(?: too)?(?:,? thanks)?",
    rf"(?:(?:great|ok|okay|cool|nice|awesome|perfect|well|wow|good)[ ,.!]*)?{_THANKS}(?: so much| a lot"
    rf"| very much| again)?"
    rf"(?:,? for (?:(?:your|the|that|this|all|all your|all the|all of your|being) )?(?:\w+ "
    rf")?(?:{_ANSWER}|helping|helpful)"
    rf"(?: me)?)?(?: with (?:that|this|it))?(?:[ ,.!]+(?:bye|goodbye|bye bye|it helped|that helped"
    rf"|you're (?:the best|great|awesome)))?",
    rf"{_THANKS}(?: so much| very much| a lot)? for (?:the|your|that|this|all the|all your) \w+(?: \w+)?",
    rf"{_THANKS}[ ,]*(?:that|this|it) (?:was|is|helped|really helped|helps)(?: \w+){{0,3}}",
    r"(?:(?:ok|okay|well|great)[ ,]*)?(?:bye|goodbye|good bye|see (?:you|ya)|catch you|talk to you|until|farewell)"
    r"(?: (?:later|soon|tomorrow|next time|then|around|again|bye)[ ,]*){0,2}(?:bye|goodbye)?",
    r"have a (?:good|great|nice|lovely) (?:day|evening|night|one|weekend|time)(?:[ ,]+(?:bye|goodbye|too))?",
    r"(?:it was |it's been )?(?:nice|good|great|lovely) (?:chatting|talking|speaking)(?: (?:with|to) you)?",
    rf"(?:um|uh|oh|well|ok|okay|hmm)?[ ,]*{_YES_NO}(?:[ ,]+(?:{_YES_NO}|please|thanks|thank you|not|way"
    rf"|sir|it is|it's not|i am|i do|i'm not|at all|right now|then|ok)){{0,3}}",
    rf"(?:{_YES_NO}[ ,]+)?(?:that|this|it|you)(?:'s|'re| is| was| are| would be|'d be| isn't| is not| "
    rf"wasn't| sounds| looks| seems)"
    rf"(?: (?:very much|all|just|so|not|quite|absolutely|definitely|totally|the|happens to be|really"
    rf"|pretty|a)){{0,2}} {_TRUTH}(?: (?:answer|one|then|with me|to me|by me))?",
    r"(?:i'm |i am |i'd say |um |well )?(?:i'm |i am )?(?:really |just |honestly |afraid )?(?:i "
    r")?(?:not (?:really |so |too |entirely )?(?:sure|certain)"
    r"|unsure|(?:don'?t|do not|dunno) (?:really )?know|can'?t say|have no idea|no idea|i'd say (?:yes"
    r"|no|maybe))(?: about (?:that|it|this)| yet| either| for (?:sure|certain)| either way){0,2}",
    r"(?:i )?(?:agree|disagree|understand|see|guess so|think so|don't think so|suppose so|doubt it"
    r"|hope so)(?: with (?:you|that))?",
    r"(?:lol|haha+|hehe+|wow|hmm+|huh|ah+|oh+|yay|nice one|no problem|no worries|you'?re welcome"
    r"|sounds good|never ?mind|go on|continue|good job|well done|not (?:right )?now|let's do it)",
)

_BOT_PART = (
    r"(?:name|age|birthday|birth ?date|bday|hobby|hobbies|purpose|job|boss|boss's name|creator|maker|owner"
    r"|gender|home ?town|home country|home|religion|favou?rite \w+(?: \w+)?|free time|opinion of "
    r"yourself|pets?)"
)
_MADE = (
    r"(?:made|created|built|programmed|designed|invented|developed|coded|trained|assembled|owns?|employs?"
    r"|manufactured|engineered|raised|controls?)"
)

SMALLTALK = (
    cued(
        "who",
        rf"\bwho (?:is it that |is the (?:one|person|company)(?: who| that)? |was it that )?(?:{_MADE}|has "
        rf"{_MADE}|had {_MADE}) (?:you|this ai|the ai)\b",
    ),
    cued(
        "you",
        rf"\b(?:who|what company|which company|by whom|how|where|when|why) (?:were|was|are) you (?:{_MADE}"
        rf"|born|from|put together|processed|originally from)\b",
    ),
    cued("born", r"\b(?:where|when|what \w+) (?:was it (?:that )?you were|were you) born\b"),
    cued("you", r"\bwhat (?:do|did) they (?:call|name) you\b"),
    cued("you", rf"\b(?:company|person|people|group|team)(?: that| who)? {_MADE} you\b"),
    cued("who", r"\bwho (?:do|are) you (?:work(?:ing)?|report(?:ing)?|take (?:your )?orders|answer)\b"),
    cued(
        "your",
        rf"^{ASK}(?:what|when|who|where)(?:'?s| is| are|s) your {_BOT_PART}(?: (?:exactly|now|right now|again"
        rf"|called))?$",
    ),
    cued("your", rf"^{ASK}(?:about |know |i need to know )?your {_BOT_PART}$"),
    cued("old young", r"\bhow (?:old|young) (?:are|would) you\b"),
    cued(
        "you",
        r"^(?:so |and |ok |hi |hey |hello |please tell me |tell me )?[ ,]*(?:who|what) (?:exactly )?are "
        r"you(?: called| made of| exactly)?$",
    ),
    cued(
        "what",
        r"\bwhat (?:are you called|(?:can|should|do|shall) i call you|to call you|name do you (?:go by|have|use"
        r"|want)(?! for))\b",
    ),
    cued(
        "you",
        r"\b(?:where|from where|what (?:country|city|place|state|planet)) (?:exactly )?(?:are|do|did|have"
        r"|were) you (?:from|live|come|came|reside|originate|originally|located|before)\b",
    ),
    cued(
        "you",
        r"\bare you (?:a |an |actually |really |just |even )*(?:real|human|robot|bot|ai|person|computer"
        r"|machine|alive|okay|ok|alright|doing (?:ok|okay|well|alright|good)|sentient|conscious|chatgpt"
        r"|from around)\b",
    ),
    cued(
        "you",
        r"\b(?:if|whether) you(?:'re| are) (?:a |an |actually |really )*(?:real|human|robot|bot|ai|person"
        r"|computer|machine|alive)\b",
    ),
    cued(
        "you",
        r"\bdo (?:you (?:have|own|keep|like)) (?:any |a )?(?:\w+ or \w+ )?(?:pets?|hobb(?:y|ies)|feelings?"
        r"|emotions?|friends|family|parents|siblings|consciousness|a boss)\b",
    ),
    cued("pets hobbies", r"\b(?:what|which)(?: \w+){0,4} (?:pets|hobbies) (?:do|are|does)\b.*\byou(?:r|rs)?\b"),
    cued(
        "you",
        r"\bwhat do you (?:like|love|enjoy|engage in|do)(?: to do| doing)? (?:for fun|in|during|when|with) (?:your"
        r"|you)\b",
    ),
    cued("joke jokes", r"\b(?:tell|give|know|hear|got|have|say|crack|make|share|need)\b.{0,30}\bjokes?\b"),
    cued("joke jokes", r"^(?:another |a |one more )?(?:\w+ ){0,3}jokes?(?: please| about .*)?$"),
    cued("something", r"\b(?:tell|say|hear|know)\b.{0,20}\bsomething (?:funny|interesting|random)\b"),
    cued("laugh", r"\bmake me laugh\b"),
    cued("fact facts trivia", r"\b(?:fun|interesting|random|cool) facts?\b.{0,40}$|\btrivia\b"),
    cued(
        "meaning point purpose reason life's",
        r"\bmeaning (?:of|in|to|behind) (?:life|existence|our existence)\b|\b(?:point|purpose|reason) "
        r"(?:of|for) (?:life|living|human existence)\b|\blife'?s (?:true )?meaning\b",
    ),
    cued(
        "what",
        r"\bwhat (?:else )?(?:can|do|could) (?:you|i) (?:do|ask you|help(?: me)?(?: with)?|assist|be used "
        r"for)(?: for me| with| here)?$",
    ),
    cued(
        "you",
        r"\bwhat (?:\w+ ){1,4}(?:can|could|are|do) you (?:able to )?(?:do|help|assist|know|answer|good at"
        r"|familiar|experienced|support)\b.{0,20}$",
    ),
    cued("you", r"\bwhat (?:can|should|could|may|am) i (?:allowed to )?ask(?: of)? you\b|\bwhat to ask you\b"),
    cued(
        "yourself you",
        r"\b(?:tell me|talk|know|say something|something)(?: a (?:bit|little))?(?: more)? about (?:yourself|you)$",
    ),
)

ABOUT_BOT = frozenset(
    """
    abilities ability able age alive animal animals answer answers area areas artificial ask asked assist assistant
    birth birthday born boss bosses bot built call called capabilities capable cat cats chatbot city coded come
    company computer conscious consciousness controls country create created creates creator creators date day
    describe design designed developed developer dog dogs emotions employed employer engineer engineered enjoy exist
    existence experience expert favorite favourite feel feeling feelings felt free friends fun function functions
    funny given goal grew hobbies hobby home hometown human humans identity intelligence intelligent invented job
    joke jokes kind kinds knowledgeable language languages laugh leisure life like line live lives location love
    loves machine made maker makers makes manager manufactured meaning method model mood name named names nickname
    occupation okay old orders origin original originally originate originated owner owns parents pastime pastimes
    people person pet pets place prefer profession programmed programmer programmers purpose question questions real
    reason robot robots serve siri skills sleep smart soul spare speak species sports state subject subjects
    supervisor take talents talk team time title today topic topics town train trained type types work working world
    year years young
    """.split()  # noqa: SIM905
)
"""The only words of weight in a question that asks the assistant about itself."""

ADDRESSES_BOT = frozenset({"you", "your", "yours", "yourself", "u", "ur", "you're", "ai", "bot", "you've", "you'd"})
