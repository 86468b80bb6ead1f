"""What a command to a tool looks like: timers, sums, conversions, weather, music, lights, directions.

All are matched against short, lower-case, single-spaced text, and none nests repetitions, so matching is fast for any
input.
"""

from memproxy.core.gate_leads import ASK
from memproxy.core.gate_match import any_of, cued

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

TOOL_WHOLE = any_of(
    r"(?:what )?the (?:current )?time (?:is )?(?:in|for|at) (?!my\b|our\b)(?:\S+ ){0,3}\S+|what time it is(?: (?:in"
    r"|at) (?!my\b|our\b)(?:\S+ ){0,3}\S+)?(?: now)?",
    r"(?:find |show |see |what(?:'s| is) |want to see )?my (?:current |map )?location(?: on the map)?",
    r"(?:help (?:with )?|how )?(?:spelling|to spell) (?:of )?\W?\w+\W?|how \W?\w+\W? is spelled",
    r"(?:can you |could you |please )?(?:make|adjust|dim|turn|change) the lights(?: \w+){0,3}",
    r"(?:please |let'?s )?play (?:\w+ ){1,3}(?:hits|songs|music|tracks|jams)(?: by .{1,30})?",
    r"(?:change|skip|stop|pause|repeat) (?:this|the|that) (?:song|track|music)(?: please)?",
    rf"{ASK}(?:(?:what(?:'s| is)|how much is|calculate|compute|solve|evaluate) "
    rf")?[\d\s.,+*/x×÷^()=%-]*\d[\d\s.,+*/x×÷^()=%-]*",
    rf"(?:do you know |{ASK})(?:what(?:'?s| is| was)? ?)?(?:the )?(?:current |exact |local |correct "
    rf")?time(?: is it)?(?: (?:right )?now| currently| at (?:home|the moment)| (?:in|for) (?!my\b|our\b)"
    rf"(?:\S+ ){{0,4}}\S+| please| there| here){{0,2}}",
    rf"{ASK}{_WHAT_IS} (?:the |today'?s |tomorrow'?s )(?:current |exact )?(?:date|day)(?: (?:is it"
    rf"|today|tomorrow|in \S+ days?|of the (?:week|month)|please|now|right now)){{0,3}}",
    rf"{ASK}(?:what|which) (?:date|day)(?: of the (?:week|month))? (?:is|will) (?:it|today"
    rf"|tomorrow)(?: be)?(?: \w+){{0,3}}",
    r"(?:today|tomorrow) is (?:what|which) (?:date|day)(?: of the (?:week|month))?",
    rf"{ASK}(?:call|dial|phone|dial up|make a call to|place a call to) (?!me\b|my name\b|it\b|that\b|this\b|in\b"
    rf"|for\b)\w+(?: \w+){{0,2}}(?: for me)?",
    rf"{ASK}(?:open (?:the )?map.{{0,40}}|(?:know |see |find out |show me )?where (?:am i|i am)(?: "
    rf"(?:right|now|here|at|exactly|currently|located|standing|today|on (?:the )?map"
    rf"|please|just)){{0,4}}|(?:what(?:'s| is) )?(?:my |the )?current location(?: please)?)",
    rf"{ASK}(?:play|put on|start|resume|pause|stop|shuffle|skip)(?: the| this| that| some| a| my| next"
    rf"| ahead| one){{0,3}} (?:music|songs?|tracks?|playlist|album|radio|jams|beats)\b.{{0,60}}",
    rf"{ASK}(?:turn|switch|put) (?:(?:on|off|up|down) .{{1,40}}|.{{1,40}} (?:on|off|up|down))(?: please)?",
)

TOOL = (
    cued(
        "alarm alarms timer timers stopwatch",
        r"\b(?:set|start|stop|cancel|need|want|create|add|begin|put|make|wake|give|turn|pause|snooze"
        r"|have)\b.{0,24}\b(?:alarms?|timers?|stopwatch)\b",
    ),
    cued(
        "alarm timer countdown",
        r"^(?:alarm|timer|countdown)\b|\b(?:alarm|timer) (?:for|at) (?:\d|noon|midnight|one|two|five|six"
        r"|seven|eight|nine|ten)\b",
    ),
    cued(
        "#",
        r"\d\s*(?:\+|\*|(?<=\s)/(?=\s)|×|÷|\^|\bplus\b|\bminus\b|\btimes\b|\bmultiplied by\b|\bdivided "
        r"by\b|\bdivided into\b|\bmod\b|% of\b|\bpercent of\b|\bto the power of\b) ?\$?\d",
    ),
    cued(
        "# root factorial",
        r"\d\s+-\s+\d+ ?=?$|\b(?:square|cube) root of \d|\b\d+ be divided (?:into|by) \d|\b\d+ factorial\b",
    ),
    cued("convert conversion", rf"\bconvert\b.{{0,40}}\b(?:{_UNIT}|{_MONEY})\b|\bconversion\b.{{0,20}}\b{_UNIT}\b"),
    cued(
        "how",
        rf"\bhow (?:many|much) {_UNIT} (?:are |is |do )?(?:there |make )?(?:in|to|per|equals?) (?:a |an |one |\d)",
    ),
    cued("#", rf"\d ?{_UNIT} (?:in|to|into|equals?) {_UNIT}\b"),
    cued("exchange", r"\bexchange rate\b|\brate of exchange\b"),
    cued(
        "#",
        rf"\d+ ?{_MONEY}(?: worth)? (?:in|to|into|equals?|is|are|worth|more or less)\b|\bhow (?:much"
        rf"|many)(?: \w+)? is \$?\d+ ?{_MONEY}\b",
    ),
    cued(
        "weather forecast",
        r"^(?:.{0,30}\b)?(?:what(?:'s|s| is| are| will)|how(?:'s|s| is| will)|is|tell me|show me|check"
        r"|give me|current|today's|let's|look up|get|will)\b.{0,30}\b(?:weather|forecast)\b(?! was)",
    ),
    cued("weather", r"^weather\b.{0,40}$|\bweather (?:today|tomorrow|now|right now)\b"),
    cued(
        "it",
        r"\b(?:will|is|does) it (?:be )?(?:going to )?(?:rain|snow|hail|storm|sunny|cloudy|raining|snowing"
        r"|windy)(?:ing|y)?\b",
    ),
    cued(
        "temperature humidity wind hot cold warm",
        r"\b(?:temperature|humidity|wind) (?:outside|right now|today|tomorrow)\b|\bhow (?:hot|cold|warm) is it\b",
    ),
    cued(
        "time timezone timezones zone zones",
        # the user's own zone is a fact about the user
        r"\bwhat time is it\b|^(?!.*\b(?:my|our|(?:am|do|did|was) i|i'?m|i am|are we)\b).*\btime ?zones?\b"
        r"|\btell time\b",
    ),
    cued(
        "translate say",
        rf"^{ASK}translate\b|\bhow (?:do|does|would|can|could|should|to)(?: (?:you|i|one|we|they))? "
        rf"say\b.{{1,50}}\b(?:in {_LANGUAGE}|if i were)\b",
    ),
    cued(
        "say to",
        rf"\bway to say\b.{{1,50}}\bin {_LANGUAGE}\b|^{_LANGUAGE} to {_LANGUAGE}\b|\bsay\b.{{1,40}}\bin "
        rf"{_LANGUAGE}$",
    ),
    cued(
        "spell spelled spelling",
        rf"^{ASK}spell\b|\bhow (?:do|does|is|to|would|should)(?: (?:you|i|one))? ?(?:spell|spelled)\b"
        rf"|\b(?:correct|proper|right) spelling\b|\bspelling of\b|\bspell(?:ing)? (?:for me|out)\b",
    ),
    cued(
        "nearest closest directions get",
        r"\bthe (?:nearest|closest)\b.{1,60}|\bdirections (?:to|from)\b|\bhow (?:do|can) (?:i|we) get "
        r"(?:to|from)\b.{1,50}\b(?:by|on|via) (?:foot|bus|train|car|bike|subway|taxi|plane)\b",
    ),
    cued(
        "traffic",
        r"^(?!.*\b(?:did|was|were|had|have i|have been)\b).*\btraffic\b.{0,60}\b(?:to|from|on|in|near"
        r"|nearest|update|report|like|now|today|good|bad|expect|driving)\b|\bencounter traffic\b",
    ),
    cued(
        "flight boarding board",
        r"\bflight status\b|\bstatus (?:of|is for|for|on) .{0,20}flight\b|\bflight [a-z]{1,2} ?\d{2,4}\b"
        r"|\bboarding scheduled\b|\bscheduled to board\b",
    ),
    cued("phone", r"\b(?:find|locate|look for|looking for|lost|misplaced|ring)\b.{0,14}\bphone\b|\bphone's location\b"),
    cued(
        "coin die dice",
        r"\b(?:flip|toss)(?:ping|ing)?\b.{0,25}\bcoin\b|\bcoin (?:flip|toss)\b|\b(?:roll|throw|rolling"
        r"|throwing|cast)\b.{0,30}\b(?:die|dice)\b|\bdice roll\b",
    ),
    cued(
        "volume louder quieter softer up",
        r"\b(?:turn|adjust|increase|decrease|raise|lower|set|change|keep|mute|make)\b.{0,20}\bvolume\b"
        r"|^volume\b|\b(?:speak|talk) (?:louder|quieter|softer|up)\b|^(?:louder|quieter)\b",
    ),
    cued(
        "song track",
        r"\b(?:next|previous|another) (?:song|track)\b|\bskip\b.{0,12}\b(?:song|track)\b|\bwhat (?:song"
        r"|track) is (?:this|playing|that)\b",
    ),
    cued(
        "play pull",
        r"^(?:please |can you |could you |i want to hear )?(?:play|pull up) (?:the |that |some |me "
        r"|songs? |music |my )*(?:song|songs|music|album|playlist|track|hits)\b",
    ),
    cued(
        "set dim turn",
        r"\bset (?:the |my )?(?:\w+ )?(?:oven|thermostat|temperature|ceiling fan|fan|lights?|heater|ac"
        r"|heating|brightness) (?:to|at|on)\b|\b(?:dim|turn (?:on|off|up|down)) (?:the|my"
        r"|all)\b.{0,24}\b(?:lights?|tv|fan|oven|heat|heater|ac|lamp|temperature|heating)\b",
    ),
    cued("random", r"\b(?:pick|generate|choose|give me) (?:a )?random number\b"),
)
