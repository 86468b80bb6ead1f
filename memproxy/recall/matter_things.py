"""Things and doings: words by which everyday matters are asked for and told, as in `recall.matter_people`."""

THINGS = r"""
music
? instrument*; do i play; play any; my band; my lesson*; musical; sing; instrumente; toco; jouer de; je joue; 乐器
! piano; guitar; ukulele; violin; cello; drum*; flute; saxophone; trumpet; bass; banjo; choir; band; orchestra
! keyboard; accordion; klavier; gitarre; geige; chor; guitarra; violín; batería; coro; guitare; violon; batterie
! chorale; 钢琴; 吉他; 小提琴; 古筝
languages
? languages; foreign language; which language; do i speak; am i learning; i'm learning; sprache*; lerne ich; idioma*
? hablo; lengua; langue*; je parle; 语言; 外语; 学什么
? language am i; spreche ich; aprendiendo; j'apprends; j'étudie; 在学什么语言
! learning; speak; fluent; native; duolingo; vocabulary; toefl; ielts; a1; a2; b1; b2; c1; spanish; french; german
! italian; portuguese; japanese; korean; chinese; mandarin; arabic; russian; turkish; dutch; swedish; polish; lerne
! aprend*; apprend*; 学; 英语; 日语; 法语
! classes; streak; gave up; danish; norwegian; greek; hindi; spanisch; französisch; italienisch; portugiesisch; inglés
! francés; alemán; italiano; portugués; anglais; espagnol; allemand; italien; portugais; 德语; 西班牙语; 韩语
car +=
? my car; our car; car do; drive; vehicle*; my van; number plate; my motorbike; mein auto; unser auto; fahre ich
? mi coche; mi carro; ma voiture; 车; 开什么
? car have; welches auto; qué coche; quelle voiture; 什么车
! car; van; drive; driving; suv; motorbike; scooter; garage; mechanic; mot; tyres; tires; electric car; toyota; honda
! ford; vw; volkswagen; golf; polo; bmw; audi; mercedes; skoda; seat; fiat; renault; peugeot; citroen; dacia; opel
! mazda; nissan; hyundai; kia; tesla; volvo; subaru; yaris; corolla; civic; auto; wagen; coche; carro; moto; furgoneta
! voiture; bagnole; 车; 辆; 驾照
! picked up~ used; ibiza; sandero; clio; kombi; transporter; gebraucht*; werkstatt; tüv; de segunda mano; taller; itv
! occasion; contrôle technique; 买了车; 提车; 二手车; 电动车
bike +=
? my bike; bike do; bicycle*; my cycle; fahrrad; mein rad; bici*; vélo*; 自行车
! bike; *bike; riding; bicycle; cargo bike; gravel bike; road bike; e-bike; ebike; canyon; orbea; brompton; trek
! specialized; cube; frame; fahrrad; gravelbike; rennrad; mein rad; bici; bicicleta; vélo; vtt; 自行车
phone =
? my phone; my mobile; phone do i; mein handy; mein telefon; mi móvil; mi teléfono; mon téléphone; mon portable; 手机
? which phone; what phone; welches handy; qué móvil; quel téléphone; 什么手机
! phone; iphone; pixel; samsung; galaxy; android; handy; móvil; smartphone; téléphone; 手机
! upgraded; sim; pro max; xiaomi; huawei; oneplus; motorola; reconditionné; akku; batería; écran; 华为; 小米; 苹果手机
computer =
? my laptop; my computer; my pc; laptop do i; computer do i; operating system; mein laptop; mein rechner; mi portátil
? mi ordenador; mon ordi*; 电脑
? which laptop; what laptop; welchen laptop; qué portátil; quel ordi; 什么电脑
! laptop; macbook; thinkpad; notebook; desktop; pc; framework; ubuntu; windows; linux; mac; rechner; portátil
! ordenador; ordi; ordinateur; 电脑; 笔记本
! upgraded; imac; dell; lenovo; asus; surface; zenbook; sobremesa; portable
devices
? my tablet; my camera; my router; my printer; my headphones; wifi; wlan; my tv; my watch; meine kamera; mi cámara
? mon appareil
! ipad; tablet; camera; router; wifi; wlan; printer; kindle; headphones; earbuds; tv; watch; kamera; drucker; cámara
! impresora; appareil photo; imprimante
rent =
? my rent; our rent; rent do; much rent; much~ rent; rent is; rent for my; my mortgage; mortgage do; on the mortgage
? cost of my flat; meine miete; unsere miete; viel miete; mi alquiler; cuánto~ alquiler; mi hipoteca; mon loyer
? notre loyer
? combien~ loyer; 房租; 房贷
? zahle~ miete; pago~ alquiler; pago de alquiler; paie~ loyer; payons~ loyer; 租金
! rent; mortgage; landlord; landlady; deposit; flat costs; flat is; house costs; for the flat; for the house
! for the room; warm; cold rent; * pcm; miete; kaltmiete; warmmiete; alquiler; hipoteca
! loyer; coloc*; 房租; 房贷
! lease; studio; bedroom*; flat; apartment; zimmer; wohnung; nebenkosten; habitaciones; piso; charges; pièces; 租金
! 租
pay =
? my salary; salary do; do i earn; do i make; my pay; my income; my earnings; mein gehalt; verdiene ich; mi sueldo
? mi salario
? cuánto gano; mon salaire; je gagne; 工资; 收入
! salary; earn; raise; paid; wage*; bonus; a year; gross; net; gehalt; verdiene; brutto; netto; sueldo; gano; salaire
! gagne; 工资; 涨薪; 奖金
travel
? countries; country; trip*; travel*; holiday*; vacation; did i fly; did we fly; been to; visited; abroad; journey
? where was i; where did we go; where did i go; next flight; urlaub; reise*; gereist; viaje*; vacaciones; viajé
? voyage*; vacances; voyagé; 旅游; 旅行; 去过; 度假
! trip; flight*; flew; fly to; flying to; flying; booked; back from; holiday; vacation; weeks in; week in; days in
! weekend in; road trip; travel*; visited; airport; hotel; hostel; airbnb; cruise; visa; passport; beach; island
! urlaub; geflogen; flug; reise; zurück aus; gebucht; viaje; vuelo*; vacaciones; playa; volvimos de; reservado; voyage
! vol; vols; vacances; séjour; rentrés; réservé; 旅游; 旅行; 机票; 飞; 酒店; 签证
study
? degree; study; studied; studying; university; college; my major; my course; my thesis; my exam*; graduate*
? my school; studiere; studium; uni; estudio; carrera; universidad; mis exámenes; études; étudie; fac; mes examens
? 专业
? 大学; 学校; 考试
? where~ at college; at college; my subject; what do i study; mein fach; qué estudio; ma filière; 读书; 上学; 上大学
? 学什么专业
! degree; study; studying; studied; university; uni; college; bachelor*; master's; masters; phd; thesis; dissertation
! semester; exam*; lecture*; professor; graduat*; school; evening class*; student; studiere; studium; prüfung
! abschluss; estudio; carrera; universidad; examen; máster; études; étudie; fac; licence; partiel*; mémoire; 大学
! 专业
! 考试; 研究生; 论文
! at college; freshman; course in; studying at; starts at; major; bachelorarbeit; masterarbeit; hausarbeit; tfg
! matrícula; carrera de; licence de; mémoire sur; rentrée; 上大学; 读书; 读研; 毕业; 上学
hobby
? my hobb*; hobbies do i; hobbies i; free time; spare time; pastime; for fun; leisure; on saturdays; on sundays
? at the weekend; at weekends; interests; freizeit; tiempo libre; aficiones; loisirs; temps libre; 爱好; 业余
! hobby; lesson*; class; classes; club; course; knit*; crochet; sew*; paint*; pottery; photograph*; chess; garden*
! allotment; bak*; hik*; fishing; board game*; woodwork*; beekeep*; bees; birdwatch*; volunteer*; choir; saturdays
! sundays; weekends; kurs; verein; töpfer*; garten; clases; curso; cerámica; huerto; cours; poterie; jardin; bénévol*
! 课; 学了; 摄影; 画画; 书法
favourite
? favo*rite; do i like; do i prefer; do i hate; do i dislike; my taste; lieblings*; mag ich; favorit*; me gusta
? préféré*; j'aime; 最喜欢; 喜欢
! love; loved; adore; like; likes; favo*rite; prefer; hate; hates; can't stand; obsessed; a fan of; the best; mag
! liebe; lieblings*; hasse; gerne; me gusta*; me encanta*; odio; prefiero; j'aime; j'adore; préfère; déteste; 喜欢
! 爱吃
! 讨厌
drink =
? my coffee; coffee order; my tea; my drink; how do i take my; kaffee; mi café; mon café; 咖啡; 喝什么
? usual coffee; my usual; order me; wie trinke ich; qué bebo; qu'est-ce que je bois; 平时喝什么
! coffee; espresso; flat white; latte; cappuccino; americano; decaf; oat milk; tea; black; no sugar; kaffee; tee; café
! té; thé; 咖啡; 茶
! caffeine; herbal tea; matcha; cold brew; koffein*; cafeína; descafeinado; caféine; infusion; 咖啡因; 奶茶
gifts
? present for; presents; gift; gifts; buy for; get for my; what do i get; geschenk*; regalo*; cadeau*; 礼物
! gift*; present; presents; birthday; christmas; xmas; wish*; wants a; surprise; voucher; geschenk*; wünscht; regalo*
! cadeau*; veut un; 礼物; 生日
books
? my book; which book*; what book*; books; the book; book am i; book did; book do i; novel*; am i reading; did i read
? reading; buch; bücher; lese ich; libro*; leyendo; livre*; lire; roman*; 书
? am i on with my book; bücher lese; lese~ gerade; estoy leyendo; je lis; 在看什么书; 读什么
! book; books; novel; novels; reading; finished; chapter; author; audiobook; library; kindle; buch; bücher; lese
! gelesen; libro*; leyendo; leí; livre*; roman; lis; lu; 书; 看完; 《
! pages in; pages; on to; author's; seiten; angefangen zu lesen; páginas; terminado~ libro; entamé; 页; 在看; 读完
films
? film*; movie*; series; show*; watched; watching; episode; serie*; película*; viendo; 电影; 电视剧
! film*; movie*; series; season; episode; watched; watching; netflix; cinema; documentary; serie*; kino; gesehen
! película*; cine; vimos; viendo; série; ciné; regardé; 电影; 电视剧; 看了
money
? budget; savings; my bank; my loan; my debt; afford; saving for; my insurance; my contract; my plan; provider
? subscription*; konto; versicherung; presupuesto; ahorr*; mi banco; banque; assurance; abonnement; 存款; 银行; 保险
? which bank; my savings; my electricity; my energy; broadband; meine bank; welche bank; mi seguro; ma banque
? 哪家银行
! budget; saving; savings; saved; bank; loan; debt; insurance; contract; subscription; provider; konto; bank
! versicherung; gespart; vertrag; presupuesto; ahorr*; banco; seguro; épargne; banque; assurance; abonnement; 存; 银行
! 保险
! moved my savings; percent; switched~ provider; tarif; stromanbieter; wechsel*; cambié de; 利率; 套餐
exam
? my score; my grade; test score; exam score; my result*; did i get in; my mark; did i pass; did i score; meine note
? mi nota; ma note; 成绩; 分数; 多少分
! score; points; grade; passed; failed; result*; marks; out of; note; bestanden; nota; aprobé; suspendí; points
! réussi; raté; admis*; 分; 通过; 及格
parking =
? park; parked; parking; parken; geparkt; aparcad*; aparqué; garé; garée; 停车; 停在
! parked; parking; level; spot; garage; space; bay; deck; geparkt; parkplatz; stellplatz; aparcad*; aparqué; plaza
! garé; garée; parking; 停
place
? where did i put; where did i leave; where did i hide; where do i keep; where is my; where are my; where's my
? wo habe ich; wo ist mein*; wo sind meine; dónde dejé; dónde puse; dónde está mi; où j'ai mis; où est mon
? où sont mes; 放在哪; 在哪里放
? where~ keys; où j'ai laissé; 钥匙在哪
! put; left; hid; hidden; keep; kept; drawer; shelf; cupboard; box; under; behind; cellar; attic; closet; schublade
! schrank; liegt; keller; cajón; armario; dejé; guardé; tiroir; armoire; rangé; placard; 放在; 抽屉; 柜子
! on top of; next to the; in the garage; im flur; en el cajón; dans l'entrée
lending
? lend; lent; borrow; borrowed; owe; owes; verliehen; geliehen; schulde*; presté; debe; debo; prêté; emprunté; 借
! lend; lent; borrow*; owe; owes; pay me back; paid me back; give it back; verliehen; geliehen; schulde*; presté
! prestado; debe; debo; prêté; emprunté; rendre; 借; 欠
goals
? my goal*; my target*; my resolution*; my plan; my plans; aiming; want to achieve; mein ziel; meine ziele
? mi objetivo; mis metas; mon objectif; mes projets; 目标; 计划
! goal*; target*; resolution*; plan to; planning; aim*; want to; hope to; by the end of; ziel*; vorgenommen; objetivo*
! meta; quiero; objectif*; je veux; projet; 目标; 计划; 打算; 想要
deadline
? deadline*; due date; hand in; submit; due on; is it due; frist; abgabe; plazo; fecha límite; entrega; date limite
? échéance; 截止
? abgeben; abzugeben; einreichen; entregar; rendre; remettre; 什么时候交; 交论文
! deadline*; due; submit*; hand in; by friday; by monday; until; frist; abgabe; bis zum; plazo; entrega; date limite
! échéance; rendre; 截止; 之前交
! extension; extended; verlängert; einreichen; entregar; aplazad*; prolong*; repoussé*; 延期; 交
stack
? tech stack; programming language*; our backend; our frontend; our stack; which os; which tool*; do we use
! python; java; javascript; typescript; kotlin; golang; in go; rust; php; ruby; rails; django; flask; react; vue
! svelte; angular; postgres*; mysql; sqlite; mongo*; redis; aws; azure; gcp; docker; kubernetes; vscode
! backend; frontend; github; gitlab; jenkins; terraform; airflow; kafka; tableau; power bi; looker; jira; notion
! slack
! figma; migrated; rewrote; ported; umgestiegen; umgestellt; migrado; migramos; migré; 迁移
framework
? framework*; which library; welches framework; qué framework; quel framework; 用什么框架
! framework*; react; vue; svelte; angular; django; flask; fastapi; rails; spring; laravel; express; symfony; next.js
! nuxt
! rewrote; ported; 框架
database
? which database; what database; our database; my database; data warehouse; which warehouse; welche datenbank
? qué base de datos; quelle base de données; 什么数据库
! database*; postgres*; mysql; mariadb; sqlite; mongo*; redis; dynamodb; oracle; snowflake; redshift; bigquery
! databricks
! clickhouse; warehouse; datenbank*; base de datos; base de données; 数据库
editor
? which editor; what editor; which ide; what ide; my editor; my ide; welchen editor; qué editor; quel éditeur
? 什么编辑器
! editor; ide; vim; neovim; nvim; emacs; vscode; vs code; pycharm; intellij; webstorm; sublime; xcode; eclipse
! éditeur
! 编辑器
hosting
? which cloud; do we host; do i host; is hosted; do we deploy; do i deploy; our server; my server; which provider
? wo hosten; welche cloud; dónde alojamos; qué nube; où est hébergé*; quel cloud; 部署在; 服务器在
! host*; deploy*; cloud; server*; aws; azure; gcp; heroku; vercel; netlify; fly.io; hetzner; digitalocean; on-prem
! alojad*
! servidor*; nube; héberg*; serveur*; 部署; 服务器
internet =
? my internet; our internet; internet provider; internet do; my broadband; broadband provider; my isp; home connection
? connection at home; mein internet; internetanbieter; mi internet; compañía de internet; fournisseur d'accès
? ma box; 宽带
! internet; broadband; fibre; fiber; dsl; isp; glasfaser; fibra; fournisseur; box; 宽带; 光纤
plants
? my garden; my plant*; my balcony; am i growing; do i grow; did i plant; mein garten; meine pflanzen; mi huerto
? mi jardín; mis plantas; mon jardin; mon potager; mes plantes; 花园; 种了什么
! garden*; plant*; planted; seed*; tomato*; courgette*; rose*; herb*; basil; allotment; greenhouse; soil; garten
! gepflanzt; gesät; tomaten; beet; huerto; jardín; tomates; sembr*; jardin; potager; semé; 种; 花园; 阳台上
cooking
? cook*; recipe; for dinner; for lunch; for breakfast; bake; oven; kochen; rezept; cociné; receta; cuisiné; recette
? 做菜; 菜谱
! cook*; recipe; oven; bake*; baking; air fryer; grams; dinner; lunch; breakfast; slow cooker; kochen; gekocht; rezept
! ofen; cociné; receta; horno; cuisiné; recette; four; 做菜; 菜谱; 烤箱
games
? game*; play on; gaming; console; spiele; juego*; videojuego*; jeu; jeux; 游戏
! game*; playstation; ps5; xbox; switch; nintendo; steam; level; zelda; chess; board game*; dungeons; spiel*; juego*
! partida; jeu; jeux; 游戏
clothes
? clothes; wear; dress; outfit; style; jacket; shoes; anziehen; kleidung; ropa; vêtement*; porter; 穿什么; 衣服
! wear*; dress*; jacket; coat; shoes; boots; suit; shirt; jeans; linen; wool; cotton; kleid*; jacke; schuhe; ropa
! zapatos; vestido; vêtement*; chaussures; robe; veste; 衣服; 鞋; 裙; 穿
purchases
? did i buy; did i pay; did it cost; did i spend; did i order; did we buy; did we pay; cost me; gekauft; gekostet
? bezahlt; compré; pagué; costó; acheté; payé; coûté; 买; 花了多少
! bought; buy; paid; pay; cost; costs; order*; ordered; spent; for \d+; \d+ euros; gekauft; gekostet; bezahlt
! bestellt; compré; comprado; pagué; costó; pedí; acheté; payé; coûté; commandé; 买; 花了; 块; 元
password !=
? password*; passcode; passwort; contraseña; mot de passe; 密码
! password*; passcode; passwort; contraseña; mot de passe; 密码
code !
? my pin; the pin; pin code; pin of; pin for; combination of; combination for; lock code; door code; code of; code for
? lock number
! pin; combination; code; lock; \d{4}
telephone !
? phone number; telephone number; mobile number; call~ on; telefonnummer; handynummer; número de teléfono
? numéro de téléphone; 电话号码; 手机号
! phone number; number is; reach~ at; call~ on; telefonnummer; nummer; teléfono; numéro; \d{5,}; 电话; 号码
papers !
? social security; passport number; chip number; licence number; license number; tax id; tax number; account number
? iban; policy number; id number; seguridad social; sécurité sociale; steuernummer; kontonummer; 身份证; 护照号
! social security; passport; chip; licence; license; tax id; tax number; account; iban; policy; steuernummer
! seguridad; sécurité; 身份证; 护照
hotel !
? which hotel; what hotel; what's the hotel; name of the hotel; hotel did; hotel do; hotel was; hotel are; my hotel
? our hotel; airbnb did
? where~ stay; hostel did; welches hotel; qué hotel; quel hôtel; nuestro hotel; notre hôtel; 哪家酒店; 什么酒店
? 住哪家
! hotel*; hostel; airbnb; stayed at; stay at; staying at; room at; guesthouse; pension; resort; apartment in; camping
! campsite; unterkunft; hôtel; gîte; alojamiento; 酒店; 宾馆; 民宿
team
? my team; our team; on my team; in my team; works with me; work with me; my colleagues; my coworkers; my cofounder
? mein team; meine kollegen; mi equipo; mis compañeros; mon équipe; mes collègues; 我的团队; 我们团队; 我的同事
! team; colleague*; coworker*; junior*; joined; cofounder*; co-founder*; contractor*; hired; new hire*; kolleg*
! eingestellt; equipo; compañer*; contratamos; équipe; collègue*; embauché*; 团队; 同事; 组里; 招了
customers
? my customer*; our customer*; biggest customer; my client*; our client*; biggest client; mein kunde; meine kunden
? mi cliente; mis clientes; mon client; mes clients; 客户
! customer*; client*; account; churned; revenue; kunde*; kundin; cliente*; clients; 客户
commute
? commute; get to work; get to the office; get to school; way to work; komme ich~ arbeit; zur arbeit; in den dienst
? voy al trabajo; al trabajo; vais au travail; aller au travail; au boulot; 怎么上班; 通勤; 上下班
! commute; cycle; cycling; bike; bus; train; tram; tube; metro; drive; walk; carpool; scooter; fahrrad; rad; bahn; zug
! roller; fahre; voy en; metro; autobús; tren; bici; andando; en métro; en bus; à vélo; à pied; trottinette; 地铁
! 公交
! 骑车; 开车; 通勤
"""
