"""What is put before a question or a command without changing it."""

import re

ASK = (
    r"(?:(?:please|hey|ok|so|and|well|can you|could you|would you|will you|can we|let's|i need you to|i "
    r"want you to|i'd like you to|i would like you to|i need to|i want to|i'd like to|i would like to|i'd "
    r"love to|go ahead and|just|ai|help me|tell me|let me|me) ){0,3}"
)
"""What is put before a command without changing it."""

LEAD = re.compile(
    r"(?:(?:ai|hey|hi|hello|ok|okay|so|well|please|bot|assistant|quick question|just curious)[ ,:]+){0,2}"
    r"(?:(?:i(?:'d| would)? (?:(?:really |also )?(?:like|love|want|need|wanna)) (?:to (?:know|hear|learn|see"
    r"|talk(?: to you)? about|find out|be told)|the|some)(?= (?:what|who|where|when|which|how|why|if|whether|about|the"
    r"|some|\w+ (?:info|information|facts?|content|value|values|calories|ingredients|definition|meaning))\b)"
    r"|i wanna know|i must know|i'?m (?:curious|wondering)|i(?:'m| am|'ve been| was)? wonder(?:ing)?"
    r"|i need you to (?:tell me|talk to me about)|i will be glad to know|i(?:'d| would)? (?:like|need|want)(?=[ ]the\b)"
    r"|(?:can|could|would|will) you (?:please )?(?:tell me|let me know|give me|show me|help me with|see|check|find out"
    r"|find|look up|search|explain to me)"
    r"|(?:please )?(?:tell me|let me know|give me|show me|find out|look up|google|search for|find me|get me|find)"
    r"|do you (?:happen to )?know|do you mind if i ask|may i ask|do you mind telling me|any idea)[ ,:]+)?"
    r"(?:(?:if|whether|about|some of)[ ])?"
)
"""What is put before a question without changing it."""
