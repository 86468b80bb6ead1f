"""Products and tools of which somebody uses one of a kind, so that "I switched to Figma" ends "I use Sketch"."""

from collections.abc import Iterator


def _set(text: str) -> frozenset[str]:
    return frozenset(word.replace("_", " ") for word in text.split())


KINDS = {
    "design": _set("figma sketch adobe_xd penpot invision framer canva photoshop affinity gimp illustrator"),
    "editor": _set(
        "vs_code vscode visual_studio_code vim neovim emacs sublime sublime_text intellij pycharm webstorm cursor zed "
        "helix nano atom eclipse android_studio xcode jetbrains rider"
    ),
    "database": _set(
        "postgres postgresql mysql mariadb sqlite mongodb mongo dynamodb cassandra oracle cockroachdb sql_server "
        "mssql firestore supabase planetscale neo4j"
    ),
    "system": _set(
        "windows macos mac_os linux ubuntu fedora arch arch_linux debian nixos mint pop_os manjaro opensuse gentoo "
        "linux_mint chromeos"
    ),
    "phone": _set("iphone pixel galaxy oneplus fairphone xiaomi nothing_phone samsung_galaxy motorola"),
    "computer": _set(
        "macbook thinkpad xps framework surface chromebook imac zenbook ideapad legion asus_zenbook dell_xps "
        "lenovo mac pc "
        "mac_mini imac"
    ),
    "tablet": _set("ipad galaxy_tab kindle_fire fire_tablet surface_pro pixel_tablet remarkable"),
    "browser": _set("chrome firefox safari edge brave arc vivaldi opera chromium"),
    "notes": _set("notion obsidian evernote roam logseq onenote bear apple_notes google_keep craft joplin"),
    "tasks": _set("todoist things ticktick trello asana jira linear clickup monday basecamp omnifocus"),
    "frontend": _set("react vue angular svelte solid solidjs nextjs next.js nuxt sveltekit remix astro htmx ember"),
    "backend": _set("django flask fastapi rails express spring spring_boot laravel nestjs phoenix actix"),
    "pipeline": _set(
        "circleci jenkins github_actions gitlab_ci buildkite travis travis_ci teamcity drone azure_pipelines bitbucket"
    ),
    "cloud": _set("aws gcp azure google_cloud digitalocean hetzner heroku fly.io render vercel netlify linode"),
    "chat": _set("slack teams microsoft_teams discord mattermost zulip google_chat"),
    "messenger": _set("whatsapp signal telegram imessage viber threema"),
    "music": _set("spotify apple_music tidal youtube_music deezer qobuz amazon_music"),
    "mail": _set("gmail outlook protonmail proton_mail fastmail hey tutanota icloud_mail"),
    "tests": _set("jest vitest mocha cypress playwright selenium pytest unittest"),
    "packages": _set("npm yarn pnpm bun pip poetry uv pipenv conda"),
    "shell": _set("bash zsh fish nushell powershell"),
    "passwords": _set("1password bitwarden lastpass keepass keepassxc dashlane"),
    "styles": _set("tailwind bootstrap material_ui mui bulma chakra styled-components sass"),
    "state": _set("redux zustand mobx recoil jotai pinia vuex"),
    "repository": _set("github gitlab bitbucket gitea codeberg"),
    "orchestration": _set("kubernetes nomad docker_swarm ecs docker_compose"),
    "mobile": _set("android ios grapheneos lineageos"),
    "language": _set(
        "python rust golang java kotlin php perl c# c++ typescript javascript scala haskell elixir clojure ocaml "
        "fortran cobol"
    ),
    "queue": _set("kafka rabbitmq sqs nats pulsar celery"),
}
COMMON_WORDS = _set(
    """
    fish bear things edge arc bun hey solid render signal teams express spring phoenix rails mint pop surface legion
    oracle cursor brave opera arch sketch linear drone bash helix zed rider atom eclipse nano slack discord
    """
)
"""Products named by a word that people use for other things: told only beside what they are ("my shell is fish")."""

STUDIES = _set(
    """
    law medicine history physics chemistry biology mathematics maths math engineering economics psychology philosophy
    sociology politics political_science computer_science informatics architecture nursing dentistry pharmacy music art
    art_history english german french spanish literature linguistics journalism business geography geology astronomy
    anthropology archaeology theology education film statistics data_science electrical_engineering
    mechanical_engineering civil_engineering veterinary_medicine marketing finance accounting biochemistry
    """
)
"""What somebody can study, by which "I switched to medicine" is told from a change of tools."""

CARS = _set(
    """
    audi bmw mercedes volkswagen vw golf polo passat tiguan opel corsa astra ford fiesta focus toyota corolla yaris
    prius honda civic jazz mazda nissan leaf micra hyundai kia fiat panda renault clio zoe peugeot citroen skoda octavia
    fabia seat ibiza volvo tesla porsche mini subaru outback suzuki dacia lexus jeep chevrolet dodge jaguar
    land_rover cupra byd polestar smart tesla_model_3 tesla_model_y
    """
)
_ALSO_WORDS = _set("seat smart focus mini golf polo jazz leaf fiesta zoe panda corsa fit up civic beetle")
"""Cars named by a word that stands before other things too ("mini fridge", "golf club")."""

VEHICLES_OF_ROAD = _set("car van camper motorhome motorbike motorcycle scooter moped truck pickup suv estate minivan")
"""What stands on the road in the place of another."""

_OF = {name: kind for kind, names in KINDS.items() for name in names}
_MOST_WORDS = 40


def kind_of(name: str) -> str | None:
    """The kind of a product by its name ("Postgres 16": database); None where it is not known."""
    said = name.casefold().strip(" .!,").split()
    for count in (3, 2, 1):
        if (kind := _OF.get(" ".join(said[:count]))) is not None:
            return kind
    return None


def product(name: str) -> str | None:
    """The kind of a thing by any word of its name ("VW Polo": car)."""
    words = [word for word in name.casefold().replace("-", " ").split() if not word.isdigit()]
    if (words[-1:] and words[-1] in CARS) or any(word in CARS - _ALSO_WORDS for word in words):
        return "car"
    return kind_of(name)


def is_product(name: str) -> bool:
    """Whether a name, in whatever letters, is a product's and nothing else."""
    return kind_of(name) is not None and name.casefold().split()[0] not in COMMON_WORDS


def named_of(kind: str, text: str) -> Iterator[str]:
    """The products of a kind that a text names, as it writes them, with the version behind them."""
    said = [word.strip(".,;:!?()") for word in text.split()[:_MOST_WORDS]]
    place = 0
    while place < len(said):
        for count in (3, 2, 1):
            name = " ".join(said[place : place + count])
            if name.casefold() in KINDS[kind]:
                end = place + count
                while end < len(said) and any(map(str.isdigit, said[end])) and len(said[end]) < 8:
                    end += 1
                yield " ".join(said[place:end])
                place = end - 1
                break
        place += 1
