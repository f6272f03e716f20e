"""Headers of published layouts, with points and displacements in them."""

from tests.sources.points.write_points import DAYS, degrees, line_of_sight, series

PLACED = "CODE={id}; LAT={lat}; LON={lon}"
LINES = {
    "squeesar": f"{PLACED}; HEIGHT={{height}}; H_STDEV=0.4; VEL=-3.1; V_STDEV=0.2; COHERENCE={{coherence}}; EFF_AREA=1",
    "squeesar-up": f"{PLACED}; VEL_V=-3.1; V_STDEV_V=0.2",
    "squeesar-east": f"{PLACED}; VEL_E=-3.1; V_STDEV_E=0.2",
    "stamps-gis": "CODE={id}; LON={lon}; LAT={lat}; HEIGHT={height}; COHERENCE={coherence}; VLOS=-3.1",
    "depsi": (
        "=0; pnt_id={id}; pnt_flags=100001; pnt_lat={lat}; pnt_lon={lon}; pnt_line=3234; pnt_pixel=6283; "
        "pnt_height={height}; pnt_demheight=48.8; pnt_demheight_highres=43.4; pnt_enscoh={coherence}; "
        "pnt_ampconsist=0.54; pnt_linear=-0.00026"
    ),
    "sarvey": (
        "point_id={id}; velocity=-3.1; coherence={coherence}; omega=0.1; st_consistency=1.5; dem_error=2.5; "
        "dem={height}; lon={lon}; lat={lat}"
    ),
    "sarproz": (
        "ID={id}; LAT={lat}; LON={lon}; SVET=3; LVET=4; HEIGHT={height}; HEIGHT WRT DEM=1.5; SIGMA HEIGHT=0.5; "
        "VEL=-3.1; SIGMA VEL=0.2; SEASONAL=0; CUMUL.DISP.=-9; COHER={coherence}; IN=1; FIN=9; STDEV=0.3"
    ),
    "sarscape": (
        "Velocity=-3.1; Coherence={coherence}; MuSigma=3; H_Precisio=1; V_Precisio=1; Range=3; Azimuth=4; Lon={lon}; "
        "Lat={lat}; X=0; Y=0; Z={height}; Z_Geoid=0; LOS_Az=100; LOS_In=37; H_correcti=0"
    ),
    "insar-norway": (
        "Point ID={id}; Track=88; Mode=1; Burst=7; Line=3; Pixel=4; longitude={lon}; latitude={lat}; height={height}; "
        "mean_velocity=-3.1; temporal_coherence={coherence}; vertical_velocity=-3.5; amplitude_dispersion=0.2; "
        "incidence_angle=37; track_angle=349; los_east={east}; los_north={north}; los_up={up}"
    ),
}
"""Fixed columns in the order of the source that `layouts.py` names; LAT and LON stand for the places of a csv."""
FIXED = {name: dict(cell.split("=") for cell in line.split("; ")) for name, line in LINES.items()}
PATTERNS = {"sarproz": "{}", "sarscape": "D_{}", "insar-norway": "{}", "depsi": "d_{}"}
IDS = [f"A0{number}" for number in range(6)]
HEIGHTS = [43.5 + number for number in range(6)]


def rows(name: str, count: int = 6) -> list[dict[str, str]]:
    """Cells of `count` points in the layout `name`, in the unit of the layout."""
    latitude, longitude = degrees(count)
    pattern = PATTERNS.get(name, "D{}")
    east, north, up = (f"{part:.8f}" for part in line_of_sight())
    values = series(count) / (1000 if name == "depsi" else 1)
    other_series = {f"{block}_{day}": "1.99846" for block in ("a", "h2ph") for day in DAYS} if name == "depsi" else {}
    table = []
    for number in range(count):
        facts = {"id": IDS[number], "lat": latitude[number], "lon": longitude[number], "height": HEIGHTS[number]}
        facts |= {"coherence": f"0.{number}", "east": east, "north": north, "up": up}
        cells = {column: cell.format(**facts) for column, cell in FIXED[name].items()}
        cells |= {pattern.format(day): f"{value:g}" for day, value in zip(DAYS, values[number], strict=True)}
        table.append(cells | other_series)
    return table
