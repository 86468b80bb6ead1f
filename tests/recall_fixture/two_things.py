"""Two things of one kind, told one after the other, and one thing told twice: what is said last holds of its own."""

import msgspec


class Told(msgspec.Struct, frozen=True):
    """Two statements, and a question for each; ``first_value`` and ``last_value`` are what only one of them says."""

    first: str
    last: str
    asked_first: str
    first_value: str
    asked_last: str
    last_value: str


class Changed(msgspec.Struct, frozen=True):
    """A statement, what became of it, and a question for what holds now."""

    before: str
    after: str
    asked: str
    holds: str
    held: str


TWO_THINGS = (
    Told(
        "My garden budget is 1001 euros.",
        "My roof budget is 500 euros.",
        "What is my garden budget?",
        "1001",
        "What is my roof budget?",
        "500",
    ),
    Told(
        "My running shoes are size 43.",
        "My ski boots are size 28.",
        "What size are my running shoes?",
        "43",
        "What size are my ski boots?",
        "28",
    ),
    Told(
        "My dentist appointment is on 4 May.",
        "My haircut appointment is on 9 June.",
        "When is my dentist appointment?",
        "4 May",
        "When is my haircut appointment?",
        "9 June",
    ),
    Told(
        "The deadline for the tax return is 31 July.",
        "The deadline for the thesis is 12 August.",
        "When is the deadline for my tax return?",
        "31 July",
        "When is the deadline for my thesis?",
        "12 August",
    ),
    Told(
        "My gym membership costs 30 euros a month.",
        "My phone contract costs 18 euros a month.",
        "How much is my gym membership?",
        "30",
        "How much is my phone contract?",
        "18",
    ),
    Told(
        "My sister's birthday is on 3 March.",
        "My brother's birthday is on 7 July.",
        "When is my sister's birthday?",
        "3 March",
        "When is my brother's birthday?",
        "7 July",
    ),
    Told(
        "The cat weighs 4 kilos.",
        "The dog weighs 22 kilos.",
        "How much does my cat weigh?",
        "4 kilos",
        "How much does my dog weigh?",
        "22",
    ),
    Told(
        "My passport expires in 2029.",
        "My driving licence expires in 2033.",
        "When does my passport expire?",
        "2029",
        "When does my driving licence expire?",
        "2033",
    ),
    Told(
        "My locker number is 117.",
        "My parking spot number is 42.",
        "What is my locker number?",
        "117",
        "What is my parking spot number?",
        "42",
    ),
    Told(
        "I take 5 mg of ramipril in the morning.",
        "I take 20 mg of atorvastatin in the evening.",
        "How much ramipril do I take?",
        "5 mg",
        "How much atorvastatin do I take?",
        "20 mg",
    ),
    Told(
        "My flight to Lisbon leaves at 9:40.",
        "My train to Porto leaves at 14:10.",
        "When does my flight to Lisbon leave?",
        "9:40",
        "When does my train to Porto leave?",
        "14:10",
    ),
    Told(
        "My old bike has 26 inch wheels and my tent is green.",
        "My new sofa is grey.",
        "What colour is my tent?",
        "green",
        "What colour is my sofa?",
        "grey",
    ),
    Told(
        "Our kitchen is painted yellow.",
        "Our bathroom is painted blue.",
        "What colour is our kitchen?",
        "yellow",
        "What colour is our bathroom?",
        "blue",
    ),
    Told(
        "My math teacher is Mr Vos.",
        "My piano teacher is Mrs Lim.",
        "Who is my math teacher?",
        "Vos",
        "Who is my piano teacher?",
        "Lim",
    ),
    Told(
        "Ida's phone number is 555 0101.",
        "Tom's phone number is 555 0202.",
        "What is Ida's phone number?",
        "0101",
        "What is Tom's phone number?",
        "0202",
    ),
    Told(
        "My landlord is called Meier.",
        "My dentist is called Koch.",
        "What is my landlord called?",
        "Meier",
        "What is my dentist called?",
        "Koch",
    ),
    Told(
        "I want to spend 1001 euros on the garden.",
        "For the roof I can spend 500 euros.",
        "How much do I want to spend on the garden?",
        "1001",
        "How much can I spend on the roof?",
        "500",
    ),
    Told(
        "Running shoes: size 43.",
        "I need ski boots in size 28.",
        "What size running shoes do I need?",
        "43",
        "What size ski boots do I need?",
        "28",
    ),
    Told(
        "I have to be at the dentist on 4 May at 9.",
        "Haircut at 3 pm on 9 June.",
        "When do I have to be at the dentist?",
        "4 May",
        "When is my haircut?",
        "9 June",
    ),
    Told(
        "My tax return has to be in by 31 July.",
        "My thesis is due 12 August.",
        "When is my tax return due?",
        "31 July",
        "When is my thesis due?",
        "12 August",
    ),
    Told(
        "The gym is 30 euros a month.",
        "I pay 18 euros for the phone.",
        "How much do I pay for the gym?",
        "30",
        "How much do I pay for my phone?",
        "18",
    ),
    Told(
        "My niece Lena turns 5 on 3 March.",
        "My nephew Jonas has his birthday on 7 July.",
        "When is my niece's birthday?",
        "3 March",
        "When is my nephew's birthday?",
        "7 July",
    ),
    Told(
        "Our cat is 4 kilos.",
        "the dog is at 22 kilos now",
        "How heavy is our cat?",
        "4 kilos",
        "How heavy is our dog?",
        "22",
    ),
    Told(
        "I need to renew my passport in 2029.",
        "my driving licence runs out in 2033",
        "When do I need to renew my passport?",
        "2029",
        "When does my driving licence run out?",
        "2033",
    ),
    Told(
        "The alarm code at home is 4711.",
        "the code of my bike lock is 0815 now",
        "What is our alarm code?",
        "4711",
        "What is the code of my bike lock?",
        "0815",
    ),
    Told(
        "I take ramipril, 5 mg.",
        "since May I take atorvastatin too, 20 mg",
        "How much ramipril do I take?",
        "5 mg",
        "How much atorvastatin do I take?",
        "20 mg",
    ),
    Told(
        "My flight to Lisbon is at 9:40 on Friday.",
        "the train to Porto leaves at 14:10 on Monday",
        "When is my flight to Lisbon?",
        "9:40",
        "When is my train to Porto?",
        "14:10",
    ),
    Told(
        "I'm reading Dune in the evenings.",
        "I started reading Middlemarch for the book club.",
        "What am I reading in the evenings?",
        "Dune",
        "What am I reading for the book club?",
        "Middlemarch",
    ),
    Told(
        "My savings account has 12,000 euros.",
        "there are 3,000 euros in our holiday fund now",
        "How much is in my savings account?",
        "12,000",
        "How much is in our holiday fund?",
        "3,000",
    ),
    Told(
        "I weigh 80 kilos.",
        "my husband weighs 95 kilos",
        "How much do I weigh?",
        "80",
        "How much does my husband weigh?",
        "95",
    ),
    Told(
        "My desk is 160 cm wide.",
        "the new shelf is 80 cm wide",
        "How wide is my desk?",
        "160",
        "How wide is my shelf?",
        "80",
    ),
    Told(
        "My car insurance is with Allianz.",
        "I moved the home insurance to HUK.",
        "Who is my car insurance with?",
        "Allianz",
        "Who is my home insurance with?",
        "HUK",
    ),
    Told(
        "My yoga course starts at 8.",
        "my pottery course now starts at 18:30",
        "When does my yoga course start?",
        "8",
        "When does my pottery course start?",
        "18:30",
    ),
)
ONE_THING = (
    Changed(
        "My garden budget is 1001 euros.",
        "My garden budget is now 800 euros.",
        "What is my garden budget?",
        "800",
        "1001",
    ),
    Changed(
        "My running shoes are size 43.",
        "My running shoes are size 44 these days.",
        "What size are my running shoes?",
        "44",
        "43",
    ),
    Changed(
        "My dentist appointment is on 4 May.",
        "The dentist moved me to 9 June.",
        "When is my dentist appointment?",
        "9 June",
        "4 May",
    ),
    Changed(
        "The deadline for the tax return is 31 July.",
        "The tax deadline got extended to 12 August.",
        "When is the deadline for my tax return?",
        "12 August",
        "31 July",
    ),
    Changed(
        "My gym membership costs 30 euros a month.",
        "The gym raised its price, I pay 35 euros now.",
        "How much is my gym membership?",
        "35",
        "30",
    ),
    Changed(
        "The cat weighs 4 kilos.",
        "The vet says the cat is at 5 kilos now.",
        "How much does my cat weigh?",
        "5 kilos",
        "4 kilos",
    ),
    Changed("My locker number is 117.", "I got a new locker, number 230.", "What is my locker number?", "230", "117"),
    Changed(
        "I take 5 mg of ramipril in the morning.",
        "The doctor put me on 10 mg of ramipril.",
        "How much ramipril do I take?",
        "10 mg",
        "5 mg",
    ),
    Changed(
        "My flight to Lisbon leaves at 9:40.",
        "The Lisbon flight was moved to 14:10.",
        "When does my flight to Lisbon leave?",
        "14:10",
        "9:40",
    ),
    Changed("My sofa is grey.", "We bought a new sofa, a red one.", "What colour is my sofa?", "red", "grey"),
    Changed(
        "Our kitchen is painted yellow.",
        "We painted the kitchen blue last week.",
        "What colour is our kitchen?",
        "blue",
        "yellow",
    ),
    Changed("My math teacher is Mr Vos.", "Mrs Lim is our new math teacher.", "Who is my math teacher?", "Lim", "Vos"),
    Changed(
        "My phone number is 555 0101.", "My new phone number is 555 0202.", "What is my phone number?", "0202", "0101"
    ),
    Changed(
        "My landlord is called Meier.",
        "The house was sold, my landlord is Koch now.",
        "What is my landlord called?",
        "Koch",
        "Meier",
    ),
    Changed("parked on level -3, spot 118", "car's on -2, spot 75", "where did i park the car?", "75", "118"),
    Changed("I live in Berlin.", "I moved to Hamburg last month.", "Where do I live?", "Hamburg", "Berlin"),
    Changed("I work at Siemens.", "I started at Bosch in May.", "Where do I work?", "Bosch", "Siemens"),
    Changed("I use Vim as my editor.", "I switched to Helix for editing.", "Which editor do I use?", "Helix", "Vim"),
)
