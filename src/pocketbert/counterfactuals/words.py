"""Word lists: gendered nouns, first names by gender and origin, occupations, and words that tell grammar.

All lists are short and our own. Names are ones that censuses and birth registers of the United States show as common
for the gender, and that surveys of perceived origin place with the origin named here; they stand for how a name is
heard, not for what a person is. Names that are also common words (Will, Mark, Grace, Hope) are left out, so that no
sentence is changed by mistake.
"""


def word_set(words: str) -> frozenset[str]:
    """A set, written as a line of words."""
    return frozenset(words.split())


NOUNS = (  # (he, she): of persons; words that are also titles, bands or verbs (king, queen, host, lady) are left out
    ("man", "woman"), ("men", "women"), ("boy", "girl"), ("boys", "girls"),
    ("father", "mother"), ("fathers", "mothers"), ("dad", "mom"), ("dads", "moms"),
    ("grandfather", "grandmother"), ("grandfathers", "grandmothers"), ("grandpa", "grandma"),
    ("son", "daughter"), ("sons", "daughters"), ("grandson", "granddaughter"), ("grandsons", "granddaughters"),
    ("brother", "sister"), ("brothers", "sisters"), ("uncle", "aunt"), ("uncles", "aunts"),
    ("nephew", "niece"), ("nephews", "nieces"), ("husband", "wife"), ("husbands", "wives"),
    ("boyfriend", "girlfriend"), ("boyfriends", "girlfriends"), ("groom", "bride"), ("widower", "widow"),
    ("stepfather", "stepmother"), ("stepdad", "stepmom"), ("stepson", "stepdaughter"), ("stepbrother", "stepsister"),
    ("actor", "actress"), ("actors", "actresses"), ("waiter", "waitress"), ("waiters", "waitresses"),
    ("hero", "heroine"), ("heroes", "heroines"),
    ("businessman", "businesswoman"), ("businessmen", "businesswomen"), ("policeman", "policewoman"),
    ("policemen", "policewomen"), ("salesman", "saleswoman"), ("spokesman", "spokeswoman"),
    ("chairman", "chairwoman"), ("congressman", "congresswoman"), ("cameraman", "camerawoman"),
)  # fmt: skip
KINSHIP = {  # for templates: (he, she, neither)
    "parent": ("father", "mother", "parent"),
    "partner": ("husband", "wife", "partner"),
    "sibling": ("brother", "sister", "sibling"),
    "child": ("son", "daughter", "child"),
    "grandparent": ("grandfather", "grandmother", "grandparent"),
    "cousin": ("uncle", "aunt", "relative"),
    "performer": ("actor", "actress", "performer"),
    "server": ("waiter", "waitress", "server"),
    "police officer": ("policeman", "policewoman", "police officer"),
    "businessperson": ("businessman", "businesswoman", "businessperson"),
}

NAMES = {  # by origin as names are heard in the United States, then by gender; the same number everywhere
    "anglo": {
        "female": ("Kate", "Emily", "Sarah", "Claire", "Allison", "Megan", "Heather", "Katherine"),
        "male": ("Bob", "Brad", "Greg", "Todd", "Matthew", "Andrew", "Scott", "Jeffrey"),
    },
    "black": {
        "female": ("Latoya", "Keisha", "Ebony", "Tanisha", "Aaliyah", "Shanice", "Lakisha", "Imani"),
        "male": ("Jamal", "Tyrone", "Darnell", "Terrell", "DeShawn", "Malik", "Tremayne", "Rasheed"),
    },
    "hispanic": {
        "female": ("Guadalupe", "Juanita", "Lucia", "Marisol", "Alejandra", "Carmen", "Ximena", "Rosa"),
        "male": ("Jose", "Luis", "Javier", "Alejandro", "Diego", "Pedro", "Miguel", "Hector"),
    },
    "east asian": {
        "female": ("Mei", "Yuki", "Ming", "Sakura", "Xiu", "Hana", "Linh", "Akiko"),
        "male": ("Hiroshi", "Wei", "Kenji", "Chen", "Takeshi", "Jun", "Hao", "Daisuke"),
    },
    "south asian": {
        "female": ("Priya", "Lakshmi", "Anjali", "Deepika", "Sunita", "Kavita", "Meera", "Pooja"),
        "male": ("Raj", "Sanjay", "Vikram", "Arjun", "Rahul", "Amit", "Suresh", "Anil"),
    },
    "arabic": {
        "female": ("Fatima", "Aisha", "Layla", "Khadija", "Zainab", "Yasmin", "Noor", "Amina"),
        "male": ("Mohammed", "Ahmed", "Omar", "Hassan", "Ali", "Khalid", "Ibrahim", "Yusuf"),
    },
}  # fmt: skip
NEUTRAL_NAMES = ("Alex", "Jordan", "Taylor", "Casey", "Riley", "Morgan", "Jamie", "Quinn")  # carried by all genders

OCCUPATIONS = (  # (one, several); half of them held mostly by women in the United States, half mostly by men
    ("nurse", "nurses"), ("doctor", "doctors"), ("teacher", "teachers"), ("engineer", "engineers"),
    ("secretary", "secretaries"), ("mechanic", "mechanics"), ("librarian", "librarians"), ("plumber", "plumbers"),
    ("cashier", "cashiers"), ("carpenter", "carpenters"), ("receptionist", "receptionists"),
    ("electrician", "electricians"), ("hairdresser", "hairdressers"), ("pilot", "pilots"),
    ("dietitian", "dietitians"), ("programmer", "programmers"), ("housekeeper", "housekeepers"),
    ("manager", "managers"), ("pharmacist", "pharmacists"), ("lawyer", "lawyers"),
)  # fmt: skip

# First names that a lower-case text may hold: what is told of a named person is not changed by its pronouns alone.
OTHER_NAMES = word_set(
    "john james robert michael david richard joseph thomas tom charles christopher daniel anthony donald steven steve "
    "paul kevin brian george edward ronald timothy jason ryan jacob nicholas eric jonathan stephen larry justin "
    "brandon benjamin samuel raymond gregory alexander patrick dennis jerry tyler aaron henry peter adam nathan "
    "douglas zachary kyle walter harold  carl arthur roger keith jeremy lawrence sean christian ethan austin joe "
    "albert jesse willie billy bryan bruce noah dylan alan ralph roy eugene wayne juan gabriel louis russell "
    "vincent philip johnny bobby mike jim jimmy tim dan dave chris nick tony sam ben martin leonardo quentin woody "
    "clint tobey orson alfred martin spike hugh mel jackie jet vin denzel brad adrian eddie ashton ernest harry "
    "mary patricia jennifer linda elizabeth barbara susan jessica karen lisa nancy betty sandra margaret ashley "
    "kimberly donna michelle carol amanda melissa deborah stephanie rebecca sharon laura cynthia dorothy amy "
    "angela shirley brenda emma anna pamela nicole helen samantha christine debra rachel carolyn janet maria "
    "olivia heather diane julie joyce victoria ruth lauren kelly christina joan evelyn judith andrea hannah jacqueline "
    "martha gloria teresa ann sara madison frances kathryn janice jean abigail alice julia judy sophia denise "
    "marilyn danielle beverly theresa diana brittany natalie isabella charlotte marie kayla alexis lori reese "
    "marcus jez doug barry ivan yvan maggie juliette isabelle catherine matt jack jake josh luke max leo theo hugo "
    "oscar oliver simon neil ian colin graham nigel gavin stuart trevor clive malcolm duncan angus ewan liam declan "
    "connor rory brendan gerard pierce jude rupert ralph hugh jacques jean pierre francois claude michel marcel andre "
    "philippe gerard luc roman vladimir sergei boris dmitri igor mikhail nikolai alexei hans klaus werner wolfgang "
    "fritz otto lars ingmar bjorn sven antonio carlos pedro pablo javier alfonso guillermo alejandro giovanni roberto "
    "federico giuseppe marco paolo akira takashi hayao yimou jackie bruce spike snoop dwayne denzel jamie "
    "samuel forrest morgan laurence cuba wesley dustin robin gene harrison sylvester arnold steven "
    "ted fred frank ned ken ron don jeff greg todd brad bob rob bill phil gary glenn craig scott kurt kirk derek "
    "darren dylan evan ethan owen wes paul jay jon jonah seth judd vince terry barney homer bart stanley howard "
    "herbert norman leonard bernard francis franklin theodore abraham isaac moses noah elijah joshua jeremiah ezra "
    "ashley audrey barbra bette bridget brooke cameron carrie cecilia celine chloe christina claire courtney "
    "debra demi drew elaine eleanor ellen emily erin eva fanny faye fiona geena gillian goldie greta gwen "
    "heidi helena hilary holly ingrid irene isabel jada janeane jeanne jenna jennifer jess jill joanna josephine "
    "judi julianne juliet kathleen kathy katie keira kelly kim kirsten kristen lara leah lena lily liv liza lucy "
    "mandy mariah marion marlene mia mila miranda molly mira naomi natasha nia nora norah paula penelope phoebe rene "
    "rosario sally salma sarah scarlett selma shannon sheryl sofia sonia stella susie sylvia tara tina uma "
    "vanessa vera vivian whitney whoopi yoko zoe hilary aaliyah selena shakira beyonce cher björk "
    "sandra halle meryl cate nicole winona angelina britney madonna jodie sigourney gwyneth renee jane kate"
)

# A text that is about gender, or about a body that has one, may have another right label after a swap.
ABOUT_GENDER = word_set(
    "gender genders sex sexes sexist sexism sexy feminist feminism feminine femininity masculine masculinity "
    "macho manly girly ladylike motherhood fatherhood sisterhood brotherhood maternal paternal pregnant "
    "pregnancy lesbian gay transgender trans womanhood manhood chick chicks womanizer misogynist misogyny "
    "beard mustache bra penis vagina male males female females guy guys dude dudes fellow fellows lad lads lass bro "
    "lord lady ladies gentleman gentlemen sir madam god goddess king kings queen queens prince princess duke duchess "
    "maid maids witch wizard bitch bastard cowboy cowgirl priest godfather godmother mama papa mum mummy daddy mommy "
    "girlie boyish girlish womanly diva dame hunk stud playboy geisha soprano tenor prostitute whore slut temptress "
    "breast breasts tits dress skirt lipstick pope nun monk virgin bachelor bachelorette"
)
