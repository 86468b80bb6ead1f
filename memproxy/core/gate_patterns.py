"""The gate's patterns: what greetings, small talk, tool commands, general questions and client housekeeping look like.

All are matched against short, lower-case, single-spaced text, and none nests repetitions, so matching is fast for any
input.
"""

import re


def _any(*alternatives: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{alternative})" for alternative in alternatives))


_END = r"(?: (?:please|now|right now|today|again|buddy|man|friend|there|all|everyone|ai|bot|assistant))?"
_ASK = (
    r"(?:(?:please|hey|ok|so|and|well|can you|could you|would you|will you|can we|let's|i need you to|i "
    r"want you to|i'd like you to|i would like you to|i need to|i want to|i'd like to|i would like to|i'd "
    r"love to|go ahead and|just|ai|help me|tell me|let me|me) ){0,3}"
)

GREETING = re.compile(
    r"(?:(?:hi|hello|hey|hiya|howdy|yo|heya|hallo|hola|bonjour|ciao|salut|moin|servus|namaste|aloha|greetings|sup"
    r"|good (?:morning|afternoon|evening|night|day)|morning|evening|thanks|thank you|thank u|thx|ty|cheers|merci|danke"
    r"|gracias|ok|okay|k|kk|bye|goodbye|good bye|bye bye|see you|see ya|later|cya|well|oh|alright|great|cool|nice"
    r"|perfect|awesome|got it|sure|welcome|so much|very much|a lot|a bunch|then|soon|there|all|everyone|everybody"
    r"|again|ai|bot|buddy|friend|mate|man|dude|folks|guys|many)\b[ ,.!?~]*){1,5}"
    r"|(?:你好|您好|嗨|谢谢|多谢|早上好|晚上好|再见|好的|こんにちは|おはよう|こんばんは|ありがとう|안녕|안녕하세요|감사합니다"
    r"|สวัสดี|ขอบคุณ|привет|спасибо|здравствуйте|مرحبا|شكرا|नमस्ते|धन्यवाद)"
)

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

LEAD = re.compile(
    r"(?:(?:ai|hey|hi|hello|ok|okay|so|well|please|bot|assistant)[ ,]+){0,2}"
    r"(?:(?:i(?:'d| would)? (?:like|love|want|need|wanna) to (?:know|hear|talk(?: to you)? about|find out|be told)"
    r"|i wanna know|i must know|i need you to (?:tell me|talk to me about)|i will be glad to know"
    r"|(?:can|could|would|will) you (?:please )?(?:tell me|let me know|give me|show me|help me with)"
    r"|(?:please )?(?:tell me|let me know|give me)"
    r"|do you know|do you mind if i ask|may i ask|do you mind telling me)[ ,]+)?"
    r"(?:(?:if|whether|about|some of) )?"
)
"""What is put before a question without changing it."""

SMALLTALK_WHOLE = _any(
    r"how (?:you|the ai|things|everything) (?:are|is|feel)(?: doing| going| feeling)?(?: today| now)?",
    r"(?:who|what|when|where|how old) (?:you are|your \w+(?: \w+)? (?:is|are))(?: called| named| from)?",
    r"(?:the )?(?:pets|hobbies) (?:that )?you have|your (?:age|name|maker|creator|boss|hobbies|pets|birthday|purpose)",
    r"what (?:(?:kinds?|types?|sorts?) of )?(?:things )?(?:you can|can you) (?:do|help(?: me)?(?: with)?)(?: for me)?",
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

SMALLTALK = _any(
    rf"\bwho (?:is it that |is the (?:one|person|company)(?: who| that)? |was it that )?(?:{_MADE}|has "
    rf"{_MADE}|had {_MADE}) (?:you|this ai|the ai)\b",
    rf"\b(?:who|what company|which company|by whom|how|where|when|why) (?:were|was|are) you (?:{_MADE}"
    rf"|born|from|put together|processed|originally from)\b",
    rf"\b(?:company|person|people|group|team)(?: that| who)? {_MADE} you\b",
    r"\bwho (?:do|are) you (?:work(?:ing)?|report(?:ing)?|take (?:your )?orders|answer)\b",
    rf"^{_ASK}(?:what|when|who|where)(?:'?s| is| are|s) your {_BOT_PART}(?: (?:exactly|now|right now|again|called))?$",
    rf"^{_ASK}(?:about |know |i need to know )?your {_BOT_PART}$",
    r"\bhow (?:old|young) (?:are|would) you\b",
    r"^(?:so |and |ok |hi |hey |hello |please tell me |tell me )?[ ,]*(?:who|what) (?:exactly )?are "
    r"you(?: called| made of| exactly)?$",
    r"\bwhat (?:are you called|(?:can|should|do|shall) i call you|to call you|name do you (?:go by|have|use|want))\b",
    r"\b(?:where|from where|what (?:country|city|place|state|planet)) (?:exactly )?(?:are|do|did|have"
    r"|were) you (?:from|live|come|came|reside|originate|originally|located|before)\b",
    r"\bare you (?:a |an |actually |really |just |even )*(?:real|human|robot|bot|ai|person|computer"
    r"|machine|alive|okay|ok|alright|doing (?:ok|okay|well|alright|good)|sentient|conscious|chatgpt"
    r"|from around)\b",
    r"\b(?:if|whether) you(?:'re| are) (?:a |an |actually |really )*(?:real|human|robot|bot|ai|person"
    r"|computer|machine|alive)\b",
    r"\bdo (?:you (?:have|own|keep|like)) (?:any |a )?(?:\w+ or \w+ )?(?:pets?|hobb(?:y|ies)|feelings?"
    r"|emotions?|friends|family|parents|siblings|consciousness|a boss)\b",
    r"\b(?:what|which)(?: \w+){0,4} (?:pets|hobbies) (?:do|are|does)\b",
    r"\bwhat do you (?:like|love|enjoy|engage in|do)(?: to do| doing)? (?:for fun|in|during|when|with) (?:your|you)\b",
    r"\b(?:tell|give|know|hear|got|have|say|crack|make|share|need)\b.{0,30}\bjokes?\b",
    r"^(?:another |a |one more )?(?:\w+ ){0,3}jokes?(?: please| about .*)?$",
    r"\b(?:tell|say|hear|know)\b.{0,20}\bsomething (?:funny|interesting|random)\b",
    r"\bmake me laugh\b",
    r"\b(?:fun|interesting|random|cool) facts?\b.{0,40}$|\btrivia\b",
    r"\bmeaning (?:of|in|to|behind) (?:life|existence|our existence)\b|\b(?:point|purpose|reason) "
    r"(?:of|for) (?:life|living|human existence)\b|\blife'?s (?:true )?meaning\b",
    r"\bwhat (?:else )?(?:can|do|could) (?:you|i) (?:do|ask you|help(?: me)?(?: with)?|assist|be used "
    r"for)(?: for me| with| here)?$",
    r"\bwhat (?:\w+ ){1,4}(?:can|could|are|do) you (?:able to )?(?:do|help|assist|know|answer|good at"
    r"|familiar|experienced|support)\b.{0,20}$",
    r"\bwhat (?:can|should|could|may|am) i (?:allowed to )?ask(?: of)? you\b|\bwhat to ask you\b",
    r"\b(?:tell me|talk|know|say something|something)(?: a (?:bit|little))?(?: more)? about (?:yourself|you)$",
)

_UNIT = (
    r"(?:(?:milli|centi|kilo|deci)?(?:met(?:er|re)s?|lit(?:er|re)s?|grams?)|inch(?:es)?|feet|foot"
    r"|yards?|miles?|pounds?|lbs?|ounces?|oz"
    r"|kilos?|kgs?|km|cm|mm|ml|stones?|gallons?|quarts?|pints?|cups?|tablespoons?|tbsp|teaspoons?|tsp|acres?|hectares?"
    r"|fahrenheit|celsius|kelvin|degrees|bytes|kilobytes|megabytes|gigabytes|seconds|minutes|hours|measurement \w)"
)
_MONEY = (
    r"(?:usd|eur|gbp|jpy|cny|inr|mxn|cad|aud|chf|yen|yuan|euros?|pesos?|rupees?|dollars?|us dollars?"
    r"|(?:british )?pounds?|francs?|won|kronor|krone|rubles?|bitcoins?|canada|canadian dollars?)"
)
_LANGUAGE = (
    r"(?:english|spanish|french|german|italian|portuguese|chinese|mandarin|cantonese|japanese|korean"
    r"|russian|arabic|hindi|turkish|polish|dutch|swedish|danish|norwegian|finnish|greek|hebrew|latin|thai"
    r"|vietnamese|hawaiian|swahili|ukrainian|czech|hungarian|china|mexico)"
)
_WHAT_IS = r"(?:what(?:'s|s| is| will be)|whats|tell me|show me|give me|i need|know|check|find out)"

TOOL_WHOLE = _any(
    r"(?:what )?the (?:current )?time (?:is )?(?:in|for|at) (?!my\b|our\b)(?:\S+ ){0,3}\S+|what time it is(?: (?:in"
    r"|at) (?!my\b|our\b)(?:\S+ ){0,3}\S+)?(?: now)?",
    r"(?:find |show |see |what(?:'s| is) |want to see )?my (?:current |map )?location(?: on the map)?",
    r"(?:help (?:with )?|how )?(?:spelling|to spell) (?:of )?\W?\w+\W?|how \W?\w+\W? is spelled",
    r"(?:can you |could you |please )?(?:make|adjust|dim|turn|change) the lights(?: \w+){0,3}",
    r"(?:please |let'?s )?play (?:\w+ ){1,3}(?:hits|songs|music|tracks|jams)(?: by .{1,30})?",
    r"(?:change|skip|stop|pause|repeat) (?:this|the|that) (?:song|track|music)(?: please)?",
    rf"{_ASK}(?:(?:what(?:'s| is)|how much is|calculate|compute|solve|evaluate) "
    rf")?[\d\s.,+*/x×÷^()=%-]*\d[\d\s.,+*/x×÷^()=%-]*",
    rf"(?:do you know |{_ASK})(?:what(?:'?s| is| was)? ?)?(?:the )?(?:current |exact |local |correct "
    rf")?time(?: is it)?(?: (?:right )?now| currently| at (?:home|the moment)| (?:in|for) (?!my\b|our\b)"
    rf"(?:\S+ ){{0,4}}\S+| please| there| here){{0,2}}",
    rf"{_ASK}{_WHAT_IS} (?:the |today'?s |tomorrow'?s )(?:current |exact )?(?:date|day)(?: (?:is it"
    rf"|today|tomorrow|in \S+ days?|of the (?:week|month)|please|now|right now)){{0,3}}",
    rf"{_ASK}(?:what|which) (?:date|day)(?: of the (?:week|month))? (?:is|will) (?:it|today"
    rf"|tomorrow)(?: be)?(?: \w+){{0,3}}",
    r"(?:today|tomorrow) is (?:what|which) (?:date|day)(?: of the (?:week|month))?",
    rf"{_ASK}(?:call|dial|phone|dial up|make a call to|place a call to) (?!me\b|it\b|that\b|this\b|in\b"
    rf"|for\b)\w+(?: \w+){{0,2}}(?: for me)?",
    rf"{_ASK}(?:open (?:the )?map.{{0,40}}|(?:know |see |find out |show me )?where (?:am i|i am)(?: "
    rf"\w+){{0,4}}|(?:what(?:'s| is) )?(?:my |the )?current location(?: please)?)",
    rf"{_ASK}(?:play|put on|start|resume|pause|stop|shuffle|skip)(?: the| this| that| some| a| my| next"
    rf"| ahead| one){{0,3}} (?:music|songs?|tracks?|playlist|album|radio|jams|beats)\b.{{0,60}}",
    rf"{_ASK}(?:turn|switch|put) (?:(?:on|off|up|down) .{{1,40}}|.{{1,40}} (?:on|off|up|down))(?: please)?",
)

TOOL = _any(
    r"\b(?:set|start|stop|cancel|need|want|create|add|begin|put|make|wake|give|turn|pause|snooze"
    r"|have)\b.{0,24}\b(?:alarms?|timers?|stopwatch)\b",
    r"^(?:alarm|timer|countdown)\b|\b(?:alarm|timer) (?:for|at) (?:\d|noon|midnight|one|two|five|six"
    r"|seven|eight|nine|ten)\b",
    r"\d\s*(?:\+|\*|(?<=\s)/(?=\s)|×|÷|\^|\bplus\b|\bminus\b|\btimes\b|\bmultiplied by\b|\bdivided "
    r"by\b|\bdivided into\b|\bmod\b|% of\b|\bpercent of\b|\bto the power of\b) ?\$?\d",
    r"\d\s+-\s+\d+ ?=?$|\b(?:square|cube) root of \d|\b\d+ be divided (?:into|by) \d|\b\d+ factorial\b",
    rf"\bconvert\b.{{0,40}}\b(?:{_UNIT}|{_MONEY})\b|\bconversion\b.{{0,20}}\b{_UNIT}\b",
    rf"\bhow (?:many|much) {_UNIT} (?:are |is |do )?(?:there |make )?(?:in|to|per|equals?) (?:a |an |one |\d)",
    rf"\d ?{_UNIT} (?:in|to|into|equals?) {_UNIT}\b",
    r"\bexchange rate\b|\brate of exchange\b",
    rf"\d+ ?{_MONEY}(?: worth)? (?:in|to|into|equals?|is|are|worth|more or less)\b|\bhow (?:much"
    rf"|many)(?: \w+)? is \$?\d+ ?{_MONEY}\b",
    r"^(?:.{0,30}\b)?(?:what(?:'s|s| is| are| will)|how(?:'s|s| is| will)|is|tell me|show me|check"
    r"|give me|current|today's|let's|look up|get|will)\b.{0,30}\b(?:weather|forecast)\b(?! was)",
    r"^weather\b.{0,40}$|\bweather (?:today|tomorrow|now|right now)\b",
    r"\b(?:will|is|does) it (?:be )?(?:going to )?(?:rain|snow|hail|storm|sunny|cloudy|raining|snowing"
    r"|windy)(?:ing|y)?\b",
    r"\b(?:temperature|humidity|wind) (?:outside|right now|today|tomorrow)\b|\bhow (?:hot|cold|warm) is it\b",
    r"\bwhat time is it\b|\btime ?zones?\b|\btell time\b",
    rf"^{_ASK}translate\b|\bhow (?:do|does|would|can|could|should|to)(?: (?:you|i|one|we|they))? "
    rf"say\b.{{1,50}}\b(?:in {_LANGUAGE}|if i were)\b",
    rf"\bway to say\b.{{1,50}}\bin {_LANGUAGE}\b|^{_LANGUAGE} to {_LANGUAGE}\b|\bsay\b.{{1,40}}\bin "
    rf"{_LANGUAGE}$",
    rf"^{_ASK}spell\b|\bhow (?:do|does|is|to|would|should)(?: (?:you|i|one))? ?(?:spell|spelled)\b"
    rf"|\b(?:correct|proper|right) spelling\b|\bspelling of\b|\bspell(?:ing)? (?:for me|out)\b",
    r"\bthe (?:nearest|closest)\b.{1,60}|\bdirections (?:to|from)\b|\bhow (?:do|can) (?:i|we) get "
    r"(?:to|from)\b.{1,50}\b(?:by|on|via) (?:foot|bus|train|car|bike|subway|taxi|plane)\b",
    r"^(?!.*\b(?:did|was|were|had|have i|have been)\b).*\btraffic\b.{0,60}\b(?:to|from|on|in|near"
    r"|nearest|update|report|like|now|today|good|bad|expect|driving)\b|\bencounter traffic\b",
    r"\bflight status\b|\bstatus (?:of|is for|for|on) .{0,20}flight\b|\bflight [a-z]{1,2} ?\d{2,4}\b"
    r"|\bboarding scheduled\b|\bscheduled to board\b",
    r"\b(?:find|locate|look for|looking for|lost|misplaced|ring)\b.{0,14}\bphone\b|\bphone's location\b",
    r"\b(?:flip|toss)(?:ping|ing)?\b.{0,25}\bcoin\b|\bcoin (?:flip|toss)\b|\b(?:roll|throw|rolling"
    r"|throwing|cast)\b.{0,30}\b(?:die|dice)\b|\bdice roll\b",
    r"\b(?:turn|adjust|increase|decrease|raise|lower|set|change|keep|mute|make)\b.{0,20}\bvolume\b"
    r"|^volume\b|\b(?:speak|talk) (?:louder|quieter|softer|up)\b|^(?:louder|quieter)\b",
    r"\b(?:next|previous|another) (?:song|track)\b|\bskip\b.{0,12}\b(?:song|track)\b|\bwhat (?:song"
    r"|track) is (?:this|playing|that)\b",
    r"^(?:please |can you |could you |i want to hear )?(?:play|pull up) (?:the |that |some |me "
    r"|songs? |music |my )*(?:song|songs|music|album|playlist|track|hits)\b",
    r"\bset (?:the |my )?(?:\w+ )?(?:oven|thermostat|temperature|ceiling fan|fan|lights?|heater|ac"
    r"|heating|brightness) (?:to|at|on)\b|\b(?:dim|turn (?:on|off|up|down)) (?:the|my"
    r"|all)\b.{0,24}\b(?:lights?|tv|fan|oven|heat|heater|ac|lamp|temperature|heating)\b",
    r"\b(?:pick|generate|choose|give me) (?:a )?random number\b",
)

_TOGETHER = (
    r"trip|vacation|holiday|project|meeting|budget|deadline|plan|plans|appointment|party|wedding|team|client|customer"
    r"|server|service|deploy|deployment|deploys|release|repo|repository|codebase|database|password"
    r"|staging|production|standup|sprint|ticket"
    r"|dog|cat|puppy|kitten|kids|baby|house|apartment|flat|garden|car|job|interview|doctor|dentist"
    r"|landlord|neighbou?rs?|boss|wife|husband"
    r"|restaurant|hotel|flight|recipe|gift|present|event|conference|presentation|essay|thesis|report"
    r"|course|class|gym|subscription"
)

PERSONAL = re.compile(
    r"\b(?:my|mine|myself|i|i'm|i've|i'd|i'll|im|ive|me|we|we're|we've|we'd|we'll|us|our|ours|ourselves)\b"
    r"|\b(?:again|as usual|the usual|remember|remind|remembered|recall|last time|previously|earlier|before that|forgot"
    r"|you (?:told|said|mentioned|recommended|suggested|gave|know about|wrote|shared|promised)|(?:told"
    r"|said to|asked) you|did i"
    r"|(?:last|this|next) (?:week|month|year|weekend|night|time|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday)"
    r"|yesterday|the other day|ago|still|so far|anymore|already|our last|we (?:talked|discussed)|agreed|decided"
    r"|this conversation|previous (?:chat|conversation|session)"
    r"|(?:days|weeks|months|years) (?:had |have )?(?:passed|elapsed)|(?:happened|came|started|finished"
    r"|bought) first|first, (?:the|a|an))\b"
    rf"|\b(?:the|this|that|for|in|on|of) (?:\w+ ){{0,2}}(?:{_TOGETHER})\b(?! of (?:the )?(?:united"
    rf"|india|germany|france|china))"
    r"|\b(?:ich|mir|mich|meine?[mnr]?|unsere?[mnr]?|wir|yo|mi|mis|nuestr[oa]s?|je|mon|mes|nous|notre|nos|eu|meu|minha"
    r"|io|mio|mia)\b"
    r"|\buser'?s?\b"
    r"|\b[a-z]+[_-][a-z]+[_-]?(?:service|api|server|app|db|job|worker|client|config|repo)\b"
)

SINGLE_NAME = re.compile(
    r"\b(?:did|does|has|had|will|would|should|could|can|do) (?!Mr|Ms|Dr|St|The|You)[A-Z][a-z]+(?! [A-Z]| of| the)\b"
    r"|(?<![A-Z][a-z] )(?<![a-z] [A-Z])\b(?!What|Who|Where|When|How|Why|That|It|There|Here|Earth"
    r"|World)[A-Z][a-z]+['’]s [a-z]+"
    r"|\b(?:with|about|between|for|to|from) [A-Z][a-z]+ and [A-Z][a-z]+\b"
    r"|^[Ww]ho(?:'s| is| was) [A-Z][a-z]+\W*$"
)

FACT = _any(
    r"(?:(?:please|hey|hi|so|ok|and|well|can you|could you|would you|do you know|tell me|let me know"
    r"|quick question|just curious)[ ,:]*){0,3}"
    r"(?:what|who|whom|whose|where|when|why|which|how|in (?:what|which)|on (?:what|which)|at what"
    r"|from what|by what|for what|of what|to what|what's|who's|where's|whats|define|explain|name "
    r"(?:the|a|an|some|\w+)|describe)\b"
    r"(?!\s*(?:about|else|now|then|next|to do|should|do you (?:think|suggest|recommend)|would you)\b).{2,}",
    r"(?:is|are|does|do|did|was|were|can|could|has|have) (?!you\b|there\b|it\b|this\b|that\b|they\b|he\b|she\b).{4,}",
    r"(?:nutrition|nutritional) (?:info|information|facts)\b.*",
    r"(?:the )?(?:definition|meaning|capital|population|nationality|calories|ingredients|distance) (?:of|in|for) .+",
)

POINTING = re.compile(
    r"\b(?:it|its|that|this|those|these|them|they|he|she|him|her|one|ones|there|then|the (?:first"
    r"|second|third|last|other|same|former|latter))\b"
    r"|^(?:and|or|but|so|what about|how about|why|how come|tell me more|go on|more|else)\b"
)

_TALK = (
    r"(?:conversation|chat|chats|chat history|chat records|discussion|dialogue|dialog|exchange|messages"
    r"|message history|thread|session|user's (?:message|conversation|request)|following (?:request|message"
    r"|text|content|prompt))"
)

HOUSEKEEPING = _any(
    r"^#{1,4} ?task:? ?(?:generate|create|suggest|write|provide|analy[sz]e|determine|you are an "
    r"autocompletion|summari[sz]e|categori[sz]e)\b.{0,300}"
    r"\b(?:title|tags?|follow-?up|search quer(?:y|ies)|quer(?:y|ies)|chat history|image generation"
    r"|autocompletion|emoji|summary)\b",
    r"\byou are an autocompletion system\b",
    rf"\b(?:generate|create|write|provide|suggest|give|reply with|respond with|come up with|produce"
    rf"|make|summari[sz]e)\b.{{0,120}}\b(?:title|headline|topic name|short name)\b.{{0,40}}\b(?:for|of"
    rf"|summari[sz]ing|that (?:captures|summari[sz]es|describes)|from|based on) (?:(?:the|this|our"
    rf"|above|following|entire|whole|user's|a|ongoing) ){{0,3}}{_TALK}\b",
    rf"\bsummari[sz]e\b.{{0,30}}\b{_TALK}\b.{{0,30}}\b(?:into|in|as|with) (?:a |an |one )?(?:\w+[ -]){{0,4}}title\b",
    rf"\b(?:name|title) (?:this|the|our) {_TALK}\b.{{0,60}}\b(?:based on|chat (?:history|records)|words"
    rf"|characters|short)\b",
    rf"\bgive (?:this|the|our) {_TALK} (?:a )?(?:short )?(?:name|title)\b",
    rf"\b(?:concise|short|brief)(?:,? \w+[ -]?\w*){{0,4}} "
    rf"title\b.{{0,80}}\b{_TALK}\b.{{0,200}}\b(?:words|punctuation|quotation|quotes|only the title"
    rf"|characters)\b",
    rf"\b{_TALK}\b.{{0,200}}\btitle\b.{{0,60}}\b(?:\d+|three|four|five|six|seven|ten) words or (?:less|fewer)\b",
    r"\btitle (?:should be |must be |that is )?in (?:\d+|three|four|five|six|seven|ten) words or (?:less|fewer)\b",
    r"\b(?:only|just) (?:return|output|reply with|respond with|write) the title\b|\b(?:output|return"
    r"|reply with|respond with) only the title\b",
    rf"\b(?:generate|suggest|create|provide|assign)\b.{{0,20}}\b\d+ ?(?:-|to|–) ?\d+ (?:\w+ "
    rf"){{0,2}}tags\b.{{0,120}}\b{_TALK}\b",
    rf"\b(?:generate|suggest|create|provide|write|predict)\b.{{0,30}}\bfollow-?up (?:questions?"
    rf"|prompts?|suggestions?)\b.{{0,200}}\b(?:the user (?:might|may|could|would)|{_TALK}|json)\b",
    rf"\b(?:generate|create|determine|formulate|rephrase|rewrite)\b.{{0,80}}\b(?:search|standalone"
    rf"|retrieval) (?:quer(?:y|ies)|questions?)\b.{{0,200}}\b{_TALK}\b",
    rf"\b(?:given|based on|analy[sz]e) (?:the )?(?:above |following |previous "
    rf")?{_TALK}\b.{{0,120}}\b(?:search quer(?:y|ies)|standalone question|rephrase the follow up)\b",
    rf"^(?:please )?summari[sz]e (?:the|this|our) (?:above |previous |entire |whole "
    rf")?{_TALK}\b.{{0,100}}\b(?:as a prompt|future context|words or less|to continue|for context"
    rf"|context window|no more than \d+)\b",
    r"\bfitting emoji\b.{0,200}\bspeaker's\b|\bspeaker's likely facial expression\b",
    r"\bindicates a new conversation topic\b",
    r"(?:总结|概括|归纳).{0,30}(?:标题|题目)|(?:生成|起).{0,20}(?:对话|会话|聊天).{0,12}(?:标题|题目|名)",
)
