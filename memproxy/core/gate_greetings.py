"""Greetings, thanks, okay, yes, no and goodbye in the languages most spoken, and the words of such messages."""

import re

from memproxy.core.late import LatePattern

_ENGLISH = (
    "hi|hello|hey|hiya|howdy|yo|heya|greetings|sup|aloha|good (?:morning|afternoon|evening|night|day)|morning|evening"
    "|thanks|thank you|thank u|thx|ty|cheers|ok|okay|k|kk|bye|goodbye|good bye|bye bye|see you|see ya|later|cya|well"
    "|oh|alright|great|cool|nice|perfect|awesome|got it|sure|welcome|so much|very much|a lot|a bunch|then|soon|there"
    "|all|everyone|everybody|again|ai|bot|buddy|friend|mate|man|dude|folks|guys|many"
)
_LATIN = (
    # Spanish
    "hola|buen[oa]s(?: (?:d[ií]as|tardes|noches))?|buen d[ií]a|(?:muchas |mil )?gracias|de nada|adi[oó]s|chao|chau"
    "|hasta (?:luego|ma[ñn]ana|pronto|la vista)|nos vemos|vale|de acuerdo|claro|s[ií]|por favor"
    # French
    "|bonjour|bonsoir|bonne (?:nuit|journ[ée]e|soir[ée]e)|salut|coucou|merci(?: (?:beaucoup|bien))?|de rien|au revoir"
    "|[àa] (?:bient[ôo]t|demain|plus(?: tard)?)|d'accord|oui|non"
    # Portuguese
    "|ol[áa]|oi|bom dia|boa (?:tarde|noite)|(?:muito )?obrigad[oa]|valeu|tchau|at[ée] (?:logo|amanh[ãa]|mais)|sim"
    "|n[ãa]o"
    # German
    "|hallo|moin(?: moin)?|servus|gr[üu](?:ß|ss) (?:gott|dich|euch)|guten (?:morgen|tag|abend)|gute nacht"
    "|(?:vielen |besten |herzlichen )?dank|danke(?: (?:sch[öo]n|sehr|dir|ihnen))?|bitte(?: sch[öo]n)?"
    "|tsch[üu](?:ss?|ß)"
    "|auf wiedersehen|bis (?:bald|morgen|sp[äa]ter|dann)|alles klar|ja|nein"
    # Indonesian and Malay
    "|halo|hai|selamat (?:pagi|siang|sore|malam|datang|tinggal|jalan)|terima ?kasih(?: banyak)?|makasih|sama-sama"
    "|sampai (?:jumpa|nanti|besok)|baiklah|baik|iya|tidak"
    # Hindi, Urdu, Bengali, Arabic, Russian, Chinese and Japanese in Latin letters
    "|namast[ey]|namaskar|dhanyava?ad|shukriya|accha|assalamu?[ -]?(?:o )?alaikum|as-salamu alaykum|salaa?m"
    "|khuda hafiz"
    "|allah hafiz|nomoshkar|dhonnobad|marhaba|shukran|ahlan|privet|spasibo|poka|zdravstvuyte|ni ?hao|xi[eè] ?xi[eè]"
    "|zai ?jian|konnichiwa|arigatou?(?: gozaimasu)?|ohayou?|sayounara|sayonara"
    # Italian, Turkish, Dutch, Swedish, Polish, Vietnamese
    "|ciao|buongiorno|buonasera|buonanotte|grazie(?: mille)?|arrivederci|merhaba|selam|te[şs]ekk[üu]rler"
    "|g[üu]nayd[ıi]n"
    "|hoi|dank (?:je|u)(?: wel)?|bedankt|doei|hej|tack|cze[śs][ćc]|dzi[ęe]kuj[ęe]|xin ch[àa]o|c[ảa]m [ơo]n"
)
_NATIVE = (
    # Chinese
    "你好啊?|您好|大家好|哈[喽啰]|嗨|嘿|早上好|上午好|中午好|下午好|晚上好|早安|晚安|早|(?:非常|十分|太)?(?:感谢"
    "|谢谢)(?:你|您|啦|了|你们)?|多谢|不客气"
    "|再见|拜拜|回头见|明天见|好的?(?:吧|呀|啊)?|行|可以|是的?|对的?|嗯+|不是?|没事|知道了|明白了?"
    # Japanese
    "|こんにちは|こんばんは|おはよう(?:ございます)?|おやすみ(?:なさい)?|はじめまして|やあ|もしもし"
    "|(?:どうも)?ありがとう(?:ございま(?:す|した))?|どうも|感謝します"
    "|さようなら|じゃあね|またね|バイバイ|はい|いいえ|うん|了解(?:です|しました)?|わかりました|オーケー"
    "|よろしく(?:お願いします)?|お願いします"
    # Korean, Thai
    "|안녕(?:하세요)?|감사합니다|고마워(?:요)?|네|아니요|좋아요?|สวัสดี(?:ครับ|ค่ะ)?|ขอบคุณ(?:ครับ|ค่ะ|มาก)?"
    # Russian
    "|привет(?:ик|ствую)?|здравствуй(?:те)?|добр(?:ый день|ое утро|ый вечер)|доброй ночи|спокойной ночи"
    "|(?:большое )?спасибо"
    "(?: (?:большое|огромное|вам|тебе))?|благодарю|пожалуйста|пока|до (?:свидания|встречи|завтра)|хорошо|ладно|ок"
    "|окей|да|нет"
    "|понятно|ясно"
    # Arabic
    "|مرحبا[ًا]?|أهلا[ً]?(?: وسهلا[ً]?)?|اهلا(?: وسهلا)?|السلام عليكم|وعليكم السلام|صباح (?:الخير|النور)"
    "|مساء (?:الخير|النور)"
    "|تصبح على خير|شكرا[ًً]?(?: (?:جزيلا|لك|كثيرا)[ً]?)?|عفوا[ً]?|مع السلامة|إلى اللقاء|وداعا[ً]?|حسنا[ً]?|تمام"
    "|نعم|لا|طيب"
    # Urdu
    "|السلام علیکم|ہیلو|سلام|(?:بہت )?شکریہ|خدا حافظ|اللہ حافظ|ٹھیک ہے|جی(?: ہاں)?|ہاں|نہیں|صبح بخیر|شب بخیر"
    # Hindi
    "|नमस्ते|नमस्कार|हैलो|हेलो|हाय|(?:बहुत )?धन्यवाद|(?:बहुत )?शुक्रिया|सुप्रभात|शुभ (?:रात्रि|प्रभात|संध्या)"
    "|अलविदा|फिर मिलेंगे"
    "|ठीक है|अच्छा|जी(?: हाँ)?|हाँ|हां|नहीं|ओके"
    # Bengali
    "|নমস্কার|হ্যালো|হাই|আসসালামু আলাইকুম|(?:অনেক )?ধন্যবাদ|শুভ (?:সকাল|রাত্রি|সন্ধ্যা|দুপুর)|বিদায়|আবার দেখা হবে"
    "|ঠিক আছে|আচ্ছা|হ্যাঁ|না"
)

_BETWEEN = r"[ ,.!?~。、！？،۔।…]*"

GREETING = LatePattern(
    # No \b behind the native forms: vowel signs at their end are no word characters to it.
    rf"(?:(?:{_ENGLISH}|{_LATIN})\b{_BETWEEN}){{1,5}}|(?:(?:{_NATIVE}){_BETWEEN}){{1,4}}"
)
"""Nothing but greetings, thanks, okay and goodbye. The message is lower case, without marks at its ends."""

HOW_ARE_YOU = re.compile(
    r"(?:[¿¡]?(?:hola|oi|ol[áa]|bonjour|salut|hallo|hi|halo|ciao|привет|你好|नमस्ते)?[ ,!]*)"
    r"(?:[¿¡]?(?:qu[ée] tal|c[óo]mo est[áa]s?|c[óo]mo (?:te|le) va|qu[ée] pasa)|(?:comment )?[çc]a va(?: bien)?"
    r"|comment (?:allez[- ]vous|vas[- ]tu|tu vas)|wie geht(?:'?s|es)?(?: es)?(?: dir| ihnen)?|como (?:vai|vais"
    r"|voc[êe] est[áa]"
    r"|est[áa]s)|tudo (?:bem|bom)|apa kabar(?:mu)?|come (?:stai|va|sta)|kaise ho|aap kaise hain|kemon acho"
    r"|как (?:дела|ты|вы|поживаешь)|你好吗|你怎么样|最近怎么样|最近好吗|お?元気(?:ですか|か)?|كيف (?:حالك|الحال)"
    r"|(?:आप )?कैसे (?:हो|हैं)(?: आप)?"
    r"|(?:আপনি |তুমি )?কেমন (?:আছেন|আছো|আছ)|(?:آپ )?کیسے ہیں(?: آپ)?|کیا حال ہے|잘 지내(?:요|세요)?)"
)

THANKS = frozenset(
    [
        "thanks",
        "thank",
        "thx",
        "ty",
        "cheers",
        "appreciate",
        "appreciated",
        "appreciative",
        "grateful",
        "gratitude",
        "thankful",
        "props",
        "kudos",
    ]
)
"""Words that make a message one of thanks when all of its words are common in such messages."""

THANKS_WORDS = THANKS | frozenset(
    """
    a able advice again ai all always am amazing and answer answered answering answers anyway are as assistance
    assistant assisting at awesome been being best bot buddy bunch but bye can cool day deeply did do done effort
    efforts even everyone everything explaining explanation extremely feedback feel fixed for friend from glad good
    goodbye got great greatly guys has have heap heaps hello help helped helpful helping helps hey hi how i i'd i'll
    i'm i've in info information is it it's item job just kind kindly kindness like lot lots lovely made makes man
    many me million most much my nice now of oh ok okay on out patience perfect please pleasure pretty problem
    question questions quick quickly quite really reply response say sense service sir so solved such super support
    sure surely sweet taking that that's the there this time tip tips to today ton tons truly trying u useful very
    was well were what will with wonderful work worked works would ya you you're you've your
    """.split()  # noqa: SIM905
)

YES_NO = frozenset(
    """
    absolutely accurate affirmative agree agreed aye certainly correct definitely disagree don't dont dunno exactly
    false inaccurate incorrect indeed likely maybe nah naw negative no nope not perhaps possibly precisely probably
    right sure true uncertain undecided unknown unlikely unsure untrue wrong ya yea yeah yep yes yup
    """.split()  # noqa: SIM905
)
"""Words that make a message an answer by yes, no or maybe when all of its words are common in such messages."""

YES_NO_WORDS = YES_NO | frozenset(
    """
    a able about absolutely actually afraid ah ai all also always am an and answer any are aren't as at awesome be
    been believe bet both but by can can't cannot case certain chance clue completely cool could couldn't course day
    definitely depends didn't do does doesn't don't dont doubt either entirely even fact fairly fine for from fully
    give go going gonna good goodness gosh got great guess happens hard heavens heck hell hmm honestly how i i'd
    i'll i'm i've idea if im in is isn't it it'd it'll it's its just kinda know knows lie me mean might mind more
    most much my myself never nice no not nothing now of oh ok okay on one only or perfect please point positive
    possible pretty quite really sadly say seem seems should sir so some something sorry sort sounds statement still
    suppose thank thanks that that'd that'll that's the then there there's they think this to too totally truth uh
    um umm very was wasn't way we well were will with won't world would wouldn't yet you you'd you're you've your
    zero
    """.split()  # noqa: SIM905
)

ASKS = frozenset(
    """
    am any are can could did do does explain find give had has have how how's if is may might shall should show tell
    was were what what's whats when when's where where's which who who's whom whose why will would
    """.split()  # noqa: SIM905
)
"""A message that begins with one of these asks or demands, whatever its other words are."""
