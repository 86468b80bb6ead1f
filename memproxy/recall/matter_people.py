"""People, places and the body: words by which everyday matters are asked for and told.

A matter begins with its name and its flags: ``!`` where hardly anybody tells of it without one of these words in the
same message, ``+`` where the words are there once and then a name stands for them, ``=`` where one thing holds at a
time, ``-`` where a word behind "my" tells of somebody he has, and not of himself ("my teacher"). Lines with ``?`` are
how it is asked for, lines with ``!`` how it is told; ``;`` is between the wordings, ``*`` stands for any letters, ``~``
for up to three words, the rest is as in regular expressions.
"""

PEOPLE = r"""
home =
? live; lives; living at; my home; address; based; reside*; my place; which city; what city; which town
? hometown; home town
? around here; near me; nearby; near us; my neighbo*rhood; my flat; my apartment; which floor; what floor; zip code
? postcode
? wohne*; meine adresse; wo leb*; bei mir in der nähe; welche stadt; welchem stock
? vivo; vivimos; mi dirección; dónde vivo; qué ciudad; qué piso; cerca de mí; mi barrio
? habite*; j'habite; mon adresse; quelle ville; quel étage; chez moi; près de chez; mon quartier
? 住在; 住哪; 地址; 哪个城市; 附近; 几楼
? dónde vivimos; où je vis; où on vit; je vis où; on vit où; wo wir leben
! live in; lives in; reside*; lives at; live at; live on; living in; i live; we live; moved to; moving to; moved into
! move to; moved in
! settled in; based in
! found a flat; found a place; found an apartment; new flat; new apartment; new place; new house; our house
! bought a house; rented
! street; avenue; lane; * floor flat; studio in; i'm in; im in; from here in; home is
! wohne*; gezogen; umgezogen; umzug; eingezogen; neue wohnung; *straße; *strasse; wir leben
! vivo en; vivimos en; nos mudamos; me mudé; mudamos; mudado; ya estamos en; piso en; calle; me mudo
! habite*; déménag*; emménag*; installé*; appart; appartement; rue; on quitte; étage
! 住在; 搬到; 搬家; 搬去; 搬好; 安家; 租了; 路; 小区
! got the keys; keys to; flatshare; lebe in; ziehe nach; ziehen nach; alquilé; alquilamos; me he mudado; hemos mudado
! instalad*; llaves; je vis; on vit; nous vivons; s'installe*; on s'installe; quartier; 搬进; 区; 住进
work =-
? my job; 's job; a living; work for; do i work; do we work; my work; employer; employed; my company; my firm
? occupation; profession; career; job title
? my position; my role; workplace; my office; my new job; start work; my shift*; work pattern; working hours; my hours
? my industry; earn a living
? meine arbeit; mein job; arbeite ich; beruf*; beruflich; arbeitgeber; meine firma; meine stelle; arbeitszeit*
? trabajo; mi empleo; mi empresa; a qué me dedico; me dedico; mi puesto; mi profesión
? travaille; mon travail; mon boulot; mon métier; mon poste; mon entreprise; employeur; je bosse; mon stage
? 工作; 上班; 公司; 职业; 职位
? day job; off work; home from work; get off work; shift pattern; wo arbeite*; im dienst; zum dienst; mein beruf
? en qué trabajo; où je bosse; où je travaille; dans quoi je; 在哪里上班; 做什么的; 单位
! i'm (?:an?|the)(?: [\w-]+){0,2} (?:c[efit]o|\w+(?:er|or|ist|yst|ect|ant|(?<!ar)ian)); employed
! i work; work as; work at; work for; work in; working as; working at; working for; works as; new job; got the job
! the job; job offer; hired
! start at; started at; start as; started as; starting at; joined(?! an? ); promoted; promotion; my shift*; night shift*
! shifts; freelanc*; self-employed; intern; internship
! i'm a*~ nurse; nurse; teacher; engineer; developer; accountant; lawyer; electrician; plumber; carpenter; mechanic
! chef; waiter; waitress; designer; architect
! pharmacist; dentist; doctor at; physiotherapist; paramedic; consultant; analyst; salesman; clerk; barista; driver
! pilot; librarian; translator; journalist; editor; baker
! i teach; i manage; i run a; my office; quit my job; gave notice; laid off; day off; employee; contract at
! retired(?! [a-z]+(?:er|or|ist|yst|ant|aut)\b)
! tutor
! arbeite*; neue stelle; neuer job; angefangen bei; kündig*; befördert; schicht*; lehrerin; lehrer; krankenschwester
! ingenieur*; büro
! trabajo en; trabajo de; trabajo como; nuevo trabajo; empiezo en; he dejado; contrat*; enfermer*; profesor*
! ingenier*; turno*; oficina
! je travaille; je bosse; nouveau poste; nouveau boulot; embauché*; je suis mutée; je suis muté; démission*; infirmi*
! professeur*; ingénieur*; stage; bureau
! 公司; 工作; 上班; 银行; 入职; 报到; 辞职; 跳槽; 做产品; 工程师; 老师; 护士; 经理; 升职
! works at; works for; works in; works on; first day; first week; first shift; last day at; my notice; new position
! apprentice*; trainee; cook; receptionist; cashier; courier; cleaner; hairdresser; builder; welder; researcher
! scientist; writer; photographer; farmer; gardener; firefighter; police officer; soldier; social worker; salesperson
! head of; leads the; i lead; we hire*; arbeitet; fange~ an; angefangen als; ausbildung; praktikum; volontariat
! kellner*; verkäufer*; erzieher*; pfleger*; aufgehört; selbständig; selbstständig; freiberuflich; probezeit
! trabaja en; trabaja como; me han cogido; me cogieron; me contrataron; empecé en; empecé como; despid*; ascend*
! camarer*; recepcionista; dependient*; cociner*; autónom*; prácticas; travaille; je commence~ chez
! je commence~ comme; commencé~ chez; alternan*; apprenti*; livreu*; serveu*; caissi*; cuisinier*; vendeu*; cdi; cdd
! promu*; licenci*; viré; virée; 离职; 自由职业; 加班; 转行; 实习; 创业; 同事; 裁员
boss =
? my boss; my manager; supervisor; report to; my chief; team lead; line manager; vorgesetzte*; mein chef; meine chefin
? mi jefe; mi jefa; mon chef; mon patron; ma cheffe; ma responsable; 老板; 上司; 领导
! boss; manager; supervisor; team lead; teamlead; line manager; report to; head of department; vorgesetzte*; mein chef
! meine chefin; mi jefe; mi jefa; mon chef; mon patron; ma cheffe; ma responsable; 老板; 上司; 领导
relationship +=
? relationship; single; married; dating; my partner; boyfriend; girlfriend; husband; wife; spouse; fianc*
? significant other; engaged; my ex; love life
? freundin; mein freund; verheiratet; beziehung; mein mann; meine frau; novia; novio; pareja; casad*; mi marido
? mi mujer; copain; copine; mari; ma femme; en couple; marié*; 男朋友; 女朋友; 老公; 老婆; 单身; 结婚
? am i seeing; seeing anyone; seeing someone; a couple; in love; in einer beziehung; vergeben; mon mec; ma copine
? 对象
? 谈恋爱
! boyfriend; girlfriend; husband; wife; hubby; partner; fianc*; engaged; married; wedding; divorc*; broke up; split up
! dating; first date; single again; proposed; anniversary; my ex; moved in together
! freundin; freund; mein mann; meine frau; verlobt; geheiratet; verheiratet; hochzeit; getrennt; scheidung; novia
! novio; pareja; casé; casamos; marido; mi mujer; boda; divorci*; copain; copine; mari; ma femme; fiancé*; mariage
! séparé*; rupture; 男朋友; 女朋友; 老公; 老婆; 分手; 结婚; 求婚; 离婚
! me are done; i are done; are over; is over between; seeing someone; dumped; in love; zusammen mit; schluss gemacht
! verliebt; hemos roto; lo hemos dejado; lo dejamos; me dejó; enamorad*; rompu; on s'est séparés
! on n'est plus ensemble; amoureu*; 分开; 谈恋爱; 离了
children +
? my kids; my children; my child; my son; my sons; my daughter; my daughters; my kid; my baby; grandchild*; grandkids
? the kids; our kids; our son; our daughter; how many children; how many kids; children do i have; kids do i have
? meine kinder; mein sohn; meine tochter; mein kind; mis hijos; mi hijo; mi hija; mes enfants; mon fils; ma fille
? mon enfant; 女儿; 儿子; 孩子
! kids; my son; our son; my daughter; our daughter; my boy; my girl; toddler; baby; twins; newborn; pregnant; due in
! the little one; grandchildren; grandson; granddaughter; school run; kindergarten; nursery; my eldest; my youngest
! the boys; the girls
! kinder; sohn; tochter; zwillinge; kita; enkel*; hijos; hijo; hija; bebé; gemelos; nietos; nieto; nieta; cole
! enfants; mon fils; ma fille; bébé; jumeaux; crèche; 女儿; 儿子; 孩子; 宝宝; 幼儿园
brother +
? my brother*; my bro; mein bruder; mi hermano; mon frère; 哥哥; 弟弟; sibling*; geschwister; mis hermanos
! brother*; bro; my twin; bruder; hermano*; frère*; sibling*; geschwister; 哥哥; 弟弟
sister +
? my sister*; my sis; meine schwester; mi hermana; ma sœur; ma soeur; 姐姐; 妹妹; sibling*; geschwister; mis hermanos
! sister*; my sis; my twin; schwester; hermana*; sœur*; soeur*; sibling*; geschwister; 姐姐; 妹妹
mother +
? mum; mom; mother; mummy; mommy; mum's; mother's; mama; mutter; madre; mamá; mère; maman; 妈妈; 母亲; 我妈
! mum; mom; mother; mummy; mommy; mama; mutter; madre; mamá; mère; maman; 妈妈; 母亲; 我妈
father +
? dad; father; daddy; papa; vater; padre; papá; père; 爸爸; 父亲; 我爸
! dad; father; daddy; papa; vater; padre; papá; père; 爸爸; 父亲; 我爸
pets +
? my pet*; our pet*; my dog*; our dog*; my cat*; our cat*; my animal*; my puppy; my kitten; the dog; the cat
? cats do i; dogs do i; pets do i
? mein hund; meine katze; haustier*; unser hund; mi perro; mi perra; mi gato; mi gata; mi mascota; mascotas; mon chien
? mon chat; ma chatte; mon animal; mes animaux; 宠物; 我的狗; 我的猫; 猫; 狗
? my puppy's; mein kater; meine katzen; unsere katze; mi perrita; notre chien; notre chat; 我家狗; 我家猫
! dog; dogs; puppy; pup; cat; cats; kitten; hamster; rabbit; parrot; budgie; tortoise; guinea pig; goldfish; horse
! pony; retriever; labrador; beagle; poodle; terrier; dachshund; collie; shepherd; vet; adopted; litter box; leash
! hund; hündin; welpe; katze; kater; kaninchen; tierarzt; perro; perra; cachorr*; gato; gata; gatito; loro
! veterinari*; chien; chienne; chiot; chat; chatte; chaton; perroquet; vétérinaire; 狗; 猫; 兔子; 鹦鹉; 仓鼠; 宠物医院
! pup's; kitty; spaniel; vizsla; husky; pug; bulldog; chihuahua; greyhound; corgi; tabby; siamese; maine coon; budgies
! guinea pigs; mischling; dackel; schäferhund; kätzchen; hámster; conejo; lapin; cochon d'inde; 小狗; 小猫; 橘猫; 金毛
age !
? how old am i; my age; my birthday; my own birthday; when was i born; year was i born; am i turning; how old will i
? wie alt bin ich; mein geburtstag; cuántos años tengo; mi cumpleaños; quel âge ai-je; mon âge; mon anniversaire
? 我多大
? 我几岁; 我的生日
! i'm \d\d; im \d\d; i am \d\d; turned \d\d; turning \d\d; turn \d\d; \d\d years old; years old; my birthday
! my \d\dth; born in; born on; at my age; my age; bin \d\d; werde \d\d; mein geburtstag; tengo \d\d años; cumplo
! cumplí; mi cumpleaños; j'ai \d\d ans; mon anniversaire; mes \d\d ans; 岁; 我的生日; 我生日
medicine
? medication*; medicine*; meds; pills; tablets; drug do i; drugs do i; prescri*; painkiller*; what do i take
? am i taking; taking anything; inhaler; contraceptive; dose; dosage; antihistamine
? medikament*; tabletten; medizin; medicamento*; medicina; medicación; pastilla*; médicament*; traitement; cachets
? comprimés; 吃什么药; 什么药; 药
? pill did; pill do; which pill; what pill; which drug; blutdruckmittel; mittel nehme; qué tomo; qué pastilla
? quels cachets; 在吃的药
! * mg; \d+ ?mg; mcg; prescribed; prescription; pill; pills; tablet; tablets; antibiotic*; painkiller*; inhaler
! insulin; injection*; drops; ointment; supplement*; vitamin*; dose; meds
! *sartan; *pril; *statin; *olol; *dipine; *prazole; *cillin; *profen; *triptan; *mab; *azole; *tadine; *rizine
! *formin; *thyroxine; *xetine; *traline; *codone; paracetamol; aspirin; melatonin; metformin; ventolin; cortisone
! tabletten; verschrieben; pastillas; recetó; recetado; comprimés; prescrit; 药; 片; 胰岛素
! put me on; been put on; off the; nehme~ ein; tropfen; spritze*; tomo~ para; sintrom; gotas; inyecci*; je prends
! gouttes; piqûre*; 开了; 吃药; 打针
health
? my health; my condition; illness*; disease; diagnos*; injur*; did i hurt; surgery; operation; operated; my doctor's
? wrong with my; sick; my head hurts; medical; symptom*; my back; my knee; my blood
? krankheit*; verletz*; operation; diagnose; krank; enfermedad*; lesi*; operación; operaron; diagnóstico; enferm*
? maladie*; blessure*; opération; opéré*; malade; 病; 受伤; 手术; 诊断
? what happened to my; bei mir diagnostiziert; meine verletzung; qué me pasa; mes blessures; 身体
! diagnos*; surgery; operation; operated; broke my; broken; fractur*; sprain*; torn; tore; twisted my; hurt my
! tweaked; threw my back; hernia; diabet*; asthma*; migraine*; coeliac; celiac; arthritis; tendon*; blood pressure
! an*mia; thyroid; physio; stroke; poisoning; fever; flu; covid; pneumonia; infection; hospital; stitches; concussion
! burnout; depress*; anxiety; reflux; insulin; injur*; came off my
! diagnostiziert; operiert; gebrochen; verletzt; verstaucht; krankenhaus; entzündung; bluthochdruck; diagnostic*
! operaron; me operan; roto; rota; esguince; lesión; tensión; hospital; diagnostiqué*; opéré*; cassé*; entorse
! tension; hôpital; 诊断; 手术; 骨折; 糖尿病; 高血压; 哮喘; 住院; 扭伤
! meniscus; ligament*; cruciate; acl; slipped disc; dislocat*; swollen; tested positive; test came back; kreuzband
! bandscheibe; meniskus; prellung; geprellt; menisco; ligamento*; operarme; ménisque; ligament; fracture; lumbago
! 韧带
! 椎间盘; 感染
doctor =
? my doctor; my gp; my dentist; my therapist; my physio; my surgeon; my vet; which vet; which doctor; which dentist
? mein arzt; meine ärztin; hausarzt; zahnarzt; mi médico; mi dentista; mi doctor*; mon médecin; mon dentiste
? mon docteur; 我的医生; 牙医
! doctor; dr; gp; dentist; therapist; physio*; surgeon; vet; vets; clinic; practice; arzt; ärztin; hausarzt; zahnarzt
! praxis; médico; médica; dentista; doctora; clínica; médecin; docteur; dentiste; cabinet; 医生; 大夫; 牙医; 诊所
avoid
? can't i eat; cannot eat; can i not eat; not allowed to eat; don't i eat; don't eat or; don't i drink; allerg*
? intoleran*; diet*; food restriction*; stay away from; should i avoid; have to avoid; must i avoid; must not eat
? shouldn't eat; vertrage; nicht essen; unverträglich*; no puedo comer; no como; alergi*; alérgic*; intoleran*
? ne mange; ne bois; allergi*; 不能吃; 过敏; 忌口
? not tolerate; can't i take; cannot take; not allowed to take; reaction to; am i allergic; react to; side effect*
? nicht vertrag*; darf ich nicht; no puedo tomar; me sienta mal; no soporto; je ne supporte; je ne dois pas; 不能碰
? 忌
? 不耐受
! allerg*; intoleran*; can't eat; cannot eat; don't eat; can't stand; can't have; don't drink; vegetarian; vegan
! coeliac; celiac; lactose; gluten; no eggs; no meat; no pork; no alcohol; halal; kosher; a reaction to; for good
! sets it off; trigger*; makes me sick; itches; vertrage; esse kein*; trinke kein*; laktose*; no como; no bebo
! no puedo comer; sienta* mal; ne mange; ne bois; une réaction; réaction*; pareil avec; 过敏; 不吃; 不能吃; 不喝; 吃素
! gives me; gave me; side effect*; rash; tolerate; not allowed; must not; avoid*; ausschlag; juckt; nebenwirkung*
! darf nicht; darf kein*; me da; me dio; efectos secundarios; sarpullido; éviter; interdit*; effets secondaires
! 副作用
! 忌口; 不能碰
sport
? workout*; my sport*; sport*; exercise do i; train for; training for; training; do i train; fit; keep fit
? my marathon; race; races; athletic; trainiere; deporte*; entreno; entrenamiento
? entraînement; je m'entraîne; 运动; 锻炼
? 健身
? my gym; which gym; work out; a member; my club; my pb; my pr; my personal best; bestzeit; mein verein; mi gimnasio
? mi marca; ma salle; mon record; 健身房; 最好成绩
! gym; ran; run; running; jog*; marathon; half marathon; 5k; 10k; race; swim; swimming; swam; yoga; pilates; tennis
! football; soccer; basketball; volleyball; badminton; climb*; boulder*; cycl*; ride; rides; rowing; surf*; ski*
! martial; karate; judo; boxing; squat*; deadlift*; bench; personal best; pb; pr
! laufen; gelaufen; joggen; schwimmen; klettern; fußball; verein; correr; corrí; gimnasio; natación; nadar; fútbol
! surf; escalada; pádel; couru; courir; course; natation; nager; escalade; foot; semi; 跑步; 游泳
! 健身; 瑜伽; 羽毛球; 马拉松
! membership; fitness*; joined; treadmill; workout*; trainer; reps; sets; coach; triathlon; hockey; golf; dance*
! crossfit; studio; schwimme*; laufe; bestzeit; wettkampf; marca personal; maratón; carrera; ciclismo; bailar; record
! entraîn*; randonnée; 教练; 打球; 爬山; 篮球; 足球
size !
? my shoe size; shoe size; what size; which size; my size; ring size; schuhgröße; meine größe; mi talla; qué talla
? ma taille
? quelle taille; ma pointure; 尺码; 鞋码
! size; size \d+; größe; größe \d+; schuhgröße; talla; talla \d+; número \d+; pointure; taille; taille \d+; wide
! narrow; fits me; 码
height !
? how tall; my height; wie groß bin; cuánto mido; je mesure; combien je mesure; 身高; 多高
! tall; height; \d+ ?cm; \d+ ?ft; foot \d+; 1m\d\d; 1[.,]\d\d ?m; groß; mido; mesure; 身高; 米
weight !=
? do i weigh; my weight; wiege ich; mein gewicht; cuánto peso; je pèse; mon poids; 体重; 多重
! \d+ ?kg; kilos; kg; lbs; pounds; stone; weigh*; weight; scale*; wiege; gewicht; waage; peso; báscula; je pèse
! poids; balance
! 体重; 斤; 公斤
loss
? die; died; death; pass away; passed away; gestorben; murió; mort; morte; décédé*; 去世
! died; dies; passed away; passed; funeral; put down; let~ go; lost; goodbye; gestorben; beerdigung; murió; falleció
! entierro; mort; morte; décédé*; enterrement; 去世; 走了
ending
? why did i leave; why did i quit; why did we leave; quit my; leave my; left my; previous employer; former employer
? last job; old job
? why am i leaving; why did i stop; why did we stop; warum~ gekündigt; warum~ aufgehört; por qué dejé; por qué me fui
? pourquoi j'ai quitté; pourquoi~ quitté; pourquoi~ démissionn*; 为什么辞职; 为什么离职; 为什么不
! leave because; left because; quit because; i leave; i left; i quit; leaving; resigned; because; gave notice
! fed up with
! handed in; can't do~ anymore; burnt out; burned out; underpaid; too far; too pricey; too expensive; gekündigt
! keine lust; weil; porque; dejé; harto; harta; parce que; quitté; marre; 因为; 辞职; 离职; 太累
sleep
? sleep; asleep; insomnia; schlaf*; einschlafen; dormir; duermo; dors; 睡; 失眠
! sleep; slept; asleep; insomnia; night shift*; melatonin; nightmare*; nap; awake; schlaf*; geschlafen; dormir; duermo
! insomnio; dormi; dors; insomnie; 睡; 失眠
pain
? headache*; migraine*; head hurts; my head; back pain; sore; itch*; allergic to pollen; hay fever; kopfschmerz*
? kopfweh; dolor de cabeza; mal de tête; migraña*; 头疼; 头痛
! headache*; migraine*; triptan*; *triptan; paracetamol; ibuprofen; pollen; hay fever; antihistamine; *rizine; *tadine
! birch; ointment; kopfschmerz*; migräne*; heuschnupfen; dolor de cabeza; migraña*; mal de tête; 头疼; 头痛; 偏头痛
flatmates
? flatmate*; roommate*; housemate*; live with; share~ with; mitbewohner*; compañer*~ de piso; coloc*; 室友
? with whom do i live; mit wem wohne; con quién vivo; avec qui j'habite; avec qui je vis; 和谁住
! flatmate*; roommate*; housemate*; live with; share; mitbewohner*; wg; compañer*; coloc*; 室友; 合租
! living with; mitbewohnerin*; vivo con; comparto; vis avec; habite avec; 一起住
names
? my landlord; my landlady; my trainer; my coach; my teacher; my tutor; my neighbo*r; my colleague; my lawyer
? my accountant; my hairdresser; my cleaner; my therapist
? my dentist's; mein vermieter*; meine vermieter*; mein trainer; meine trainerin; mein lehrer; meine lehrerin
? mein nachbar; meine nachbarin; mi casero; mi casera; mi profesor*; mi entrenador*; mi vecin*; mon propriétaire
? ma propriétaire; mon prof; ma prof; mon coach; mon voisin; ma voisine; 房东; 教练; 老师; 邻居
! landlord; landlady; trainer; coach; teacher; tutor; neighbo*r; colleague; lawyer; accountant; hairdresser; barber
! cleaner; therapist; a lady called; a guy called; called
! vermieter*; trainerin; lehrerin; nachbar*; heißt; casero; casera; profesor*; entrenador*; vecin*; se llama
! propriétaire; prof; voisin*; s'appelle; 房东; 教练; 老师; 邻居; 姓; 叫
appointment
? appointment*; *termin; *termine; cita; rendez-vous; rdv; 预约; 什么时候看
? dentist; check-up; checkup; zahnarzt; arzttermin; dentista; médico; dentiste; médecin; 看医生; 看牙
! appointment*; appt; *termin; *termine; booked for; at \d; on monday; on tuesday; on wednesday; on thursday
! on friday; termin; cita; rendez-vous; rdv; 预约
! rescheduled; postponed; pushed~ to; moved to; appointments; verschoben; verlegt; aplazad*; pospuest*; reporté*
! décalé*; 改到; 推迟; 挂号
origin
? where am i from; my nationality; my citizenship; my native; grew up; grow up; my roots; woher komme ich
? de dónde soy; d'où je viens; ma nationalité; 老家; 国籍; 哪里人
! from; grew up; citizen*; nationality; passport; born in; native; aufgewachsen; komme aus; soy de; nací; je viens de
! grandi; 老家; 国籍
fears
? afraid; scared; my fear*; phobia*; frighten*; angst; miedo*; peur; 害怕; 怕什么
! afraid; scared; terrified; fear*; phobia*; panic*; freak* out; angst; panik; miedo*; pánico; peur; panique; 怕; 恐惧
belief
? religion; religious; my faith; do i vote; my church; religión; 信仰; 宗教
! church; mosque; temple; synagogue; pray*; ramadan; lent; catholic; protestant; muslim; jewish; hindu; buddhist
! atheist; vote*; kirche; iglesia; misa; église; messe; 教堂; 佛
wedding
? wedding; get married; getting married; honeymoon; hochzeit; boda; mariage; 婚礼
? our wedding; the wedding; get~ married; marry; our big day; heiraten wir; wann heiraten; nos casamos; se casan
? on se marie; 结婚
! wedding; married; marry*; honeymoon; venue; bride; groom; bridesmaid; ceremony; registry office; hochzeit
! standesamt; boda; mariage; mairie; 婚礼; 结婚
! set the date; save the date; bridesmaid*; best man; fiancé*; barn; castle; reception; buffet; heiraten; trauung
! trauzeug*; nos casamos; novia; casarnos; banquete; on se marie; témoin*; salle; 婚宴; 伴娘
party
? party; celebrat*; feier*; fiesta; fête; 派对; 聚会
! party; celebrat*; guests; invited; cake; surprise; feier*; gäste; fiesta; invitados; fête; invités; 派对; 聚会
friends
? my best friend; my friend; my friends; my mate; my buddy; mein bester freund; meine freunde; mi mejor amigo
? mi mejor amiga; mis amigos; mis amigas
? mon meilleur ami; ma meilleure amie; mes amis; 朋友; 闺蜜
! friend; friends; friendship*; mate; buddy; pal; freund; freunde; freunden; freundin; freundinnen; kumpel; amigo
! amiga; amigos; amigas; ami; amie; amis; amies; pote; potes; 朋友; 闺蜜
grandparents +
? grandma; grandmother; granny; nan; grandpa; grandfather; grandad; granddad; grandparents; oma; opa; großmutter
? großvater; abuel*; grand-mère; grand-père; mamie; papi; 奶奶; 爷爷; 外婆; 外公
! grandma; grandmother; granny; nan; grandpa; grandfather; grandad; granddad; grandparents; oma; opa; großmutter
! großvater; abuel*; grand-mère; grand-père; mamie; papi; 奶奶; 爷爷; 外婆; 外公
arrival
? when do i start; when did i start; start date; first day; begin; begann; angefangen; empiezo; empecé; empezó
? commencé; début; 什么时候开始
! start*; starts; begin*; began; first day; from \d+; on the \d+; angefangen; beginn*; empiezo; empecé; empieza
! commencé; commence; début*; 开始; 报到
routine
? my schedule; my routine; am i free; do i have time; my week; my mornings; my evenings; what time do i; wecker
? mein plan; mi horario; mi rutina; mon emploi du temps; ma routine; 日程; 有空
! every; each; mondays; tuesdays; wednesdays; thursdays; fridays; saturdays; sundays; at \d; daily; weekly; shift*
! mornings; evenings; jeden; jede; montags; dienstags; mittwochs; donnerstags; freitags; cada; todos los; lunes
! martes; miércoles; jueves; viernes; chaque; tous les; lundi; mardi; mercredi; jeudi; vendredi; 每天
! 每周; 周一; 周二; 周三
! 周四; 周五
eyes
? glasses; eyesight; contact lenses; brille; gafas; lunettes; 眼镜
! glasses; eyesight; lenses; dioptr*; optician; brille; gafas; lunettes; 眼镜; 近视
blood
? blood type; blood group; blutgruppe; grupo sanguíneo; groupe sanguin; 血型
! blood type; blood group; blutgruppe; grupo sanguíneo; groupe sanguin; 血型; * negative; * positive
birthdays !
? when~ birthday; what day~ birthday; date~ birthday; birthday when; born; wann~ geburtstag; cuándo~ cumpleaños
? quand~ anniversaire; 生日是; 生日在; 哪天生日; 什么时候生日
! birthday; bday; born; turned \d+; turns \d+; turning \d+; \d\dth; geburtstag; cumpleaños; cumple; anniversaire; 生日
! 岁
ages !
? how old; wie alt; cuántos años; qué edad; quel âge; 几岁; 多大
! years old; year old; months old; (?<=\()\d\d?; turned \d+; turns \d+; turning \d+; is \d\d?; i'm \d\d; she's \d\d?
! he's \d\d?; will be \d\d?; \d\d? today; \d\d? now; \d+ months; \d+th birthday; \d+th; 1st birthday; birthday; aged
! my age; \d+ jahre; wird \w+; ist \d\d?; \d+ años; \d+ ans; 岁
anniversary !
? when~ anniversary; what day~ anniversary; wann~ hochzeitstag; cuándo~ aniversario; quand~ anniversaire de mariage
? 纪念日是; 纪念日在
! anniversary; hochzeitstag; aniversario; anniversaire de mariage; got married on; married on; years married; 纪念日
"""
