"""A prefix in S3, walked like a folder: what a compile cache in a bucket holds, from one listing.

Travels with the head node's script, and lies in a run's folder for its jobs. The listing is taken once, at the first
look; open the prefix anew to look again. Standard library only, Python 3.6.
"""

import s3

PAGE = 1000  # keys in an answer of S3's


class Listing:
    """All objects below a prefix, by folder: {folder: {name: Entry}}, with the keys relative to the prefix."""

    def __init__(self, url, bucket=None):
        name, self.prefix = s3.split(url)
        self.url, self.bucket = url.rstrip("/"), bucket or s3.Bucket(name)
        self._folders = None

    @property
    def folders(self):
        """What lies in each folder."""
        if self._folders is None:
            self._folders = {"": {}}
            for key, size, at in self.bucket.list(self.prefix):
                self.note(key[len(self.prefix) :], size, at)
        return self._folders

    def note(self, key, size, at):
        """There is such an object, and there are the folders that lead to it."""
        parent, _, name = key.rpartition("/")
        self._folders.setdefault(parent, {})[name] = Entry(self, key, size, at)
        while parent:
            key = parent
            parent, _, name = key.rpartition("/")
            folder = self._folders.setdefault(parent, {})
            if name in folder:
                break
            folder[name] = Entry(self, key, None, 0.0)

    def forget(self, key):
        """An object is gone."""
        parent, _, name = key.rpartition("/")
        self.folders.get(parent, {}).pop(name, None)


class Entry:
    """One name in a folder, as os.scandir gives them. `st_size` and `st_mtime` are its own."""

    def __init__(self, listing, key, size, at):
        self.name, self.path = key.rpartition("/")[2], Place(listing, key)
        self.st_size, self.st_mtime = size or 0, at
        self._folder = size is None

    def is_dir(self):
        """Whether it is a folder."""
        return self._folder

    def stat(self):
        """Size and time, as os.stat has them."""
        return self


class Place:
    """A key, with what of pathlib's Path the caches' code uses."""

    def __init__(self, listing, key=""):
        self._listing, self._key = listing, key.strip("/")

    def __truediv__(self, other):
        """The place below this one."""
        return Place(self._listing, f"{self._key}/{other}")

    def __str__(self):
        """Its URL."""
        return f"{self._listing.url}/{self._key}".rstrip("/")

    def __eq__(self, other):
        """Whether both are one place."""
        return isinstance(other, Place) and str(self) == str(other)

    def __hash__(self):
        """As equality wants it."""
        return hash(str(self))

    def __lt__(self, other):
        """In the order of the URLs."""
        return str(self) < str(other)

    @property
    def name(self):
        """The last part of the key."""
        return self._key.rpartition("/")[2]

    @property
    def parent(self):
        """The place above it."""
        return Place(self._listing, self._key.rpartition("/")[0])

    def scan(self):
        """The entries of this folder; OSError when there is none, as os.scandir has it."""
        try:
            found = self._listing.folders.get(self._key)
        except s3.Unreachable as error:
            raise OSError(str(error)) from error
        if found is None:
            raise FileNotFoundError(str(self))
        return list(found.values())

    def is_dir(self):
        """Whether something lies below it."""
        return self._key in self._listing.folders

    def relative_to(self, other):
        """The rest of the key behind another place."""
        return self._key[len(other._key) :].strip("/")

    def read_text(self, encoding="utf-8"):
        """What the object holds. OSError when it is not there, or cannot be had."""
        try:
            content = self._listing.bucket.get(self._listing.prefix + self._key)
        except s3.Unreachable as error:
            raise OSError(str(error)) from error
        if content is None:
            raise FileNotFoundError(str(self))
        return content.decode(encoding)

    def stat(self):
        """Size and time of the object. OSError when it is not there."""
        for entry in self.parent.scan():
            if entry.name == self.name:
                return entry
        raise FileNotFoundError(str(self))

    def write_text(self, text, encoding="utf-8"):
        """Write the object: S3 shows the old one or the new one, never a part."""
        try:
            self._listing.bucket.put(self._listing.prefix + self._key, text.encode(encoding))
        except s3.Unreachable as error:
            raise OSError(str(error)) from error

    def unlink(self):
        """Remove the object. OSError when S3 refuses."""
        try:
            self._listing.bucket.delete(self._listing.prefix + self._key)
        except s3.Unreachable as error:
            raise OSError(str(error)) from error
        self._listing.forget(self._key)

    def remove(self):
        """Remove everything below it."""
        for entry in self.scan():
            if entry.is_dir():
                entry.path.remove()
            else:
                entry.path.unlink()


def place(url):
    """The top of a prefix, s3://BUCKET/PREFIX; nothing is asked yet."""
    return Place(Listing(url))
