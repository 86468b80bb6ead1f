"""Whether a chat client wrote a prompt for itself: titles, tags, follow-up suggestions, search queries, summaries."""

from memproxy.core.bounded_regex import BoundedPattern


def _any_of(*alternatives: str, most: int) -> BoundedPattern:
    return BoundedPattern("|".join(f"(?:{alternative})" for alternative in alternatives), most=most)


_TALK = (
    r"(?:conversation|chat|chats|chat history|chat records|discussion|dialogue|dialog|exchange|messages"
    r"|message history|thread|session|user's (?:message|conversation|request)|following (?:request|message"
    r"|text|content|prompt))"
)

_CUES = (
    *("title", "headline", "name", "tags", "follow", "quer", "question", "summari", "emoji", "facial", "topic"),
    *("autocompletion", "#", "标", "题", "名"),
)
"""One of these stands in all that `_HOUSEKEEPING` fits: most messages have none, and looking for it takes longest."""

MOST_READ = 6000

_HOUSEKEEPING = _any_of(
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
    most=MOST_READ,
)


def is_housekeeping(text: str) -> bool:
    """Whether a chat client wrote this for itself, by how such prompts are made (about "the conversation", with demands
    on the answer's form): "Suggest a title for my essay" is a user's request.
    """
    head = " ".join(text[:MOST_READ].lower().split())
    return any(cue in head for cue in _CUES) and _HOUSEKEEPING.search(head) is not None
