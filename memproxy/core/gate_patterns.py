"""The gate's patterns for what is personal, what asks for general knowledge, what leans on earlier messages, and what a
chat client wrote for itself.

All are matched against short, lower-case, single-spaced text, and none nests repetitions, so matching is fast for any
input.
"""

import re

from memproxy.core.gate_match import any_of
from memproxy.core.late import LatePattern

_TOGETHER = (
    r"trip|vacation|holiday|project|meeting|budget|deadline|plan|plans|appointment|party|wedding|team|client|customer"
    r"|server|service|deploy|deployment|deploys|release|repo|repository|codebase|database|password"
    r"|staging|production|standup|sprint|ticket"
    r"|dog|cat|puppy|kitten|kids|baby|house|apartment|flat|garden|kitchen|bathroom|bedroom|cabin"
    r"|car|job|interview|doctor|dentist|landlord|neighbou?rs?|boss|wife|husband"
    r"|restaurant|hotel|flight|recipe|gift|present|event|conference|presentation|essay|thesis|report"
    r"|course|class|gym|subscription|bills?|(?:credit |debit )?cards?|bank account|paycheck|salary|rent|lease"
    r"|mortgage"
    r"|calendar|agenda|schedule|reminders?|day off|shift|(?:shopping|to-?do|grocery|guest|wish|packing"
    r"|bucket) list|lists?"
)

PERSONAL = LatePattern(
    r"\b(?:my|mine|myself|i|i'm|i've|i'd|i'll|im|ive|me|we|we're|we've|we'd|we'll|us|our|ours|ourselves)\b"
    r"|\b(?:again|as usual|the usual|remember|remind|remembered|recall|last time|previously|earlier|before that"
    r"|forgot"
    r"|you (?:told|said|mentioned|recommended|suggested|gave|know about|wrote|shared|promised)|(?:told"
    r"|said to|asked) you|did i"
    r"|(?:last|this|next) (?:week|month|year|weekend|night|time|monday|tuesday|wednesday|thursday"
    r"|friday|saturday|sunday)"
    r"|yesterday|the other day|ago|still|so far|anymore|already|our last|we (?:talked|discussed)|agreed|decided"
    r"|this conversation|previous (?:chat|conversation|session)"
    r"|(?:days|weeks|months|years) (?:had |have )?(?:passed|elapsed)|(?:happened|came|started|finished"
    r"|bought) first|first, (?:the|a|an))\b"
    rf"|\b(?:the|this|that) (?:\w+(?:'s)? ){{0,2}}(?:{_TOGETHER})\b(?! of (?:the )?(?:rights|united|india|germany"
    rf"|france|china))"
    rf"|\b(?<!\bkind )(?<!\btype )(?<!\bsort )(?<!\bbreed )(?:for|in|on|of) (?!(?:an?|any|every|each|which|what)\b)"
    rf"(?:\w+ )?(?:{_TOGETHER})\b"
    r"|\b(?:ich|mir|mich|meine?[mnr]?|unsere?[mnr]?|wir|yo|mi|mis|nuestr[oa]s?|je|mon|mes|nous|notre|nos|eu|meu|minha"
    r"|io|mio|mia)\b"
    r"|\buser'?s?\b"
    r"|\b[a-z]+[_-][a-z]+[_-]?(?:service|api|server|app|db|job|worker|client|config|repo)\b"
)

PAST = re.compile(
    r"\b(?:as usual|the usual|usually|my usual|like (?:always|before|last time|usual)|as (?:always|before"
    r"|last time|we)"
    r"|same .{0,20}\bas (?:before|last|always|usual|yesterday)|last time|the other day|did (?:i|we)|have (?:i|we)"
    r"|i (?:told|said|mentioned|asked)|(?:i|we) (?:usually|always|normally|often)|previous(?:ly)? (?:chat"
    r"|conversation)"
    r"|(?:you|we) (?:told|said|mentioned|recommended|suggested|talked|discussed|agreed)|remember(?:ed)?"
    r"|remind me (?:of|what"
    r"|who|where|when|which|how|why)|once more)\b"
)
"""References to what was said or done before: a command or a chat that has one leans on memory."""

WISHES = re.compile(
    r"\b(?:recommend\w*|suggest\w*|idea|ideas|advice|tonight|prefer\w*|favou?rite|(?:things|activities|places|meals?"
    r"|dish(?:es)?|food|something|what|where) to (?:do|eat|visit|see|cook|watch|read|buy|wear)"
    r"|(?:good|best|nice|great|cool|fun|popular|cheap|fancy|healthy|romantic) (?:\w+,? ){0,2}(?:restaurants?"
    r"|meals?|dinners?"
    r"|lunch(?:es)?|breakfasts?|dish(?:es)?|food|recipes?|places?|spots?|bars?|cafes?|hotels?|gifts?|presents?|books?"
    r"|movies?|films?|shows?|games?|songs?|activities|attractions|things|outfits?|hobbies))\b"
)
"""Questions for a choice: what the user likes, or must avoid, decides there."""

LEFT_OPEN = re.compile(r"\b(?:it|that|this|those|these|them|one|ones|him|her|there)$")
"""A question that ends by pointing at something said before."""

_COOKED = (
    r"(?:bak(?:e|ing)|cook(?:ing)?|boil(?:ing)?|roast(?:ing)?|grill(?:ing)?|fry(?:ing)?|steam(?:ing)?"
    r"|prep(?:aration)?)"
)

FACT = any_of(
    r"(?:(?:please|hey|hi|so|ok|and|well|can you|could you|would you|do you know|tell me|let me know"
    r"|quick question|just curious)[ ,:]*){0,3}"
    r"(?:what|who|whom|whose|where|when|why|which|how|(?:in|on|at|from|by|for|of|to|with|under|during|after|about) "
    r"(?:what|which|whom|how (?:long|many|much|far|often|old))|what's|who's|where's|whats|define|explain|name "
    r"(?:the|a|an|some|\w+)|describe)\b"
    r"(?!\s*(?:about|else|now|then|next|should|do you (?:think|suggest|recommend)|would you)\b"
    r"|\s*to do(?: now)?$).{2,}",
    r"(?:is|are|does|do|did|was|were|can|could|has|have) (?!you\b|there\b|it\b|this\b|that\b|they\b|he\b|she\b).{4,}",
    r"(?:is|would|was) it (?:be )?(?:still )?(?:okay|ok|alright|safe|possible|healthy|unhealthy|good|bad|better"
    r"|best|legal|illegal"
    r"|normal|common|dangerous|harmful|true|necessary|required|fine|wise|smart|recommended)\b.{6,}",
    r"are there (?:any )?(?:\w+ )?(?:required|mandatory|recommended|known|different|specific|special|legal)\b.{6,}",
    r"(?:will|would|does|do) .{2,40}\b(?:instead of|in place of|as a substitute for)\b.+",
    r"(?:(?:nutrition(?:al)?|calorie|vitamin|protein) (?:info|information|facts?|content|count|check|values?)"
    r"|calories)\b.*",
    r"(?:the )?(?:\w+ )?(?:definition|meaning|capital|population|nationality|calories|ingredients|distance"
    r"|amount of \w+"
    r"|intake of \w+|symptoms|causes|history|benefits|difference|boiling point|height|length|age|origin|author"
    r"|inventor"
    r") (?:of|in|for|between|on) .+",
    rf"(?:the )?(?:average |total |usual )?{_COOKED} (?:times?|temp(?:erature)?|instructions|directions) (?:for"
    rf"|of) .+",
    r"(?:diy|do it yourself|step by step|steps (?:for|to)|instructions (?:for|on|to)|how-to)\b.{4,}",
    r".{2,60}\b(?:(?:takes?|lasts?|keeps?|stays?|needs?|costs?|uses?|has|have|contains?|requires?|gets?|comprises?"
    r"|means?)"
    r" (?:what|which|how (?:long|many|much|often))|type of plug|many calories)\b.*",
    r"(?:in|on|at|during|under|after|before|according to|of|for) .{3,60}? ?, (?:what|which|who|where|when"
    r"|how)\b.{4,}",
    r".{3,60}\b(?:in|to|of|by|for|with|from|populate|become) which .{3,}",
)

POINTING = re.compile(
    r"\b(?:it|its|that|this|those|these|them|they|he|she|him|her|one|ones|there|then|the (?:first"
    r"|second|third|last|other|same|former|latter))\b"
    r"|^(?:and|or|but|so|what about|how about|why|how come|tell me more|go on|more|else)\b"
)

THINGS = re.compile(
    r"\b(?:it|its|that|this|those|these|them|they|he|she|him|her|his|one|ones|did you|have you|you (?:were|did)"
    r"|was|were)\b"
)
"""Words that point at something said before, and the past tense: what is asked is not the assistant alone."""

_TALK = (
    r"(?:conversation|chat|chats|chat history|chat records|discussion|dialogue|dialog|exchange|messages"
    r"|message history|thread|session|user's (?:message|conversation|request)|following (?:request|message"
    r"|text|content|prompt))"
)

HOUSEKEEPING_CUES = (
    *("title", "headline", "name", "tags", "follow", "quer", "question", "summari", "emoji", "facial", "topic"),
    *("autocompletion", "#", "标", "题", "名"),
)
"""One of these stands in all that `HOUSEKEEPING` fits: most messages have none, and looking for it takes longest."""

HOUSEKEEPING_CHARACTERS = 6000

HOUSEKEEPING = any_of(
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
    rf"\b(?:concise|short|brief)(?:,? \w+(?:[ -]\w+)?){{0,4}} "
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
    most=HOUSEKEEPING_CHARACTERS,
)
