// Reads zip files with stored members (APPNOTE 6.3), and checks what they contain.
#include "package/archive.h"

#include <fcntl.h>
#include <inductor_npu/package.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "package/sha256.h"

namespace inductor_npu::package {
namespace {

constexpr uint32_t kLocalHeader = 0x04034b50, kDirectoryEntry = 0x02014b50, kDirectoryEnd = 0x06054b50;
constexpr uint32_t kWideDirectoryEnd = 0x06064b50, kWideLocator = 0x07064b50;
constexpr size_t kLocalHeaderBytes = 30, kDirectoryEntryBytes = 46, kDirectoryEndBytes = 22, kWideLocatorBytes = 20,
                 kWideDirectoryEndBytes = 56, kLongestComment = 65535;
constexpr uint16_t kWideSizes = 1;  // the extra field with sizes of 64 bits
constexpr uint32_t kElsewhere = 0xFFFFFFFF;

const std::string kManifest = kModelFolder + "manifest.json";
const std::string kManifestDigest = kModelFolder + "manifest.sha256";

template <class T>
T little_endian(const std::string& bytes, size_t offset) {
  if (offset + sizeof(T) > bytes.size()) {
    throw PackageError("it is truncated");
  }
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<T>(static_cast<uint8_t>(bytes[offset + i])) << (8 * i));
  }
  return value;
}

// A name out of an archive that may be damaged, for a message.
std::string shown(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char letter) { return letter < ' ' || letter > '~'; }, '?');
  return name;
}

class File {
 public:
  explicit File(const std::string& path) : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
    struct stat facts {};
    if (descriptor_ < 0 || ::fstat(descriptor_, &facts) != 0) {
      const std::string reason = std::strerror(errno);
      close();
      throw PackageError("it cannot be read: " + reason);
    }
    if (!S_ISREG(facts.st_mode)) {
      close();
      throw PackageError("it is not a file");
    }
    size_ = static_cast<uint64_t>(facts.st_size);
  }
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  uint64_t size() const { return size_; }

  std::string read(uint64_t offset, uint64_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) {
      throw PackageError("it is truncated");
    }
    std::string result(bytes, '\0');
    for (uint64_t done = 0; done < bytes;) {
      const ssize_t count = ::pread(descriptor_, result.data() + done, bytes - done, static_cast<off_t>(offset + done));
      if (count < 0 && errno == EINTR) {
        continue;
      }
      if (count <= 0) {
        throw PackageError(count == 0 ? "it is truncated" : std::string("it cannot be read: ") + std::strerror(errno));
      }
      done += static_cast<uint64_t>(count);
    }
    return result;
  }

 private:
  void close() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
      descriptor_ = -1;
    }
  }

  int descriptor_;
  uint64_t size_ = 0;
};

// --- Zip files -------------------------------------------------------------------------------------------------------

struct Place {
  uint64_t header, bytes;
};

// Offset and size of a member in a directory entry whose fields of 32 bits may be too small.
Place place_of(const std::string& directory, size_t entry) {
  uint64_t bytes = little_endian<uint32_t>(directory, entry + 24);
  uint64_t packed = little_endian<uint32_t>(directory, entry + 20);
  uint64_t header = little_endian<uint32_t>(directory, entry + 42);
  const size_t name = little_endian<uint16_t>(directory, entry + 28);
  const size_t extra = little_endian<uint16_t>(directory, entry + 30);
  size_t field = entry + kDirectoryEntryBytes + name;
  const size_t end = field + extra;
  while (field + 4 <= end) {
    const uint16_t kind = little_endian<uint16_t>(directory, field);
    const size_t next = field + 4 + little_endian<uint16_t>(directory, field + 2);
    if (kind == kWideSizes) {
      size_t at = field + 4;
      for (uint64_t* value : {&bytes, &packed, &header}) {
        if (*value == kElsewhere) {
          *value = little_endian<uint64_t>(directory, at);
          at += sizeof(uint64_t);
        }
      }
    }
    field = next;
  }
  return {header, bytes};
}

class ZipFile final : public Source {
 public:
  explicit ZipFile(const std::string& path) : file_(path) { read_directory(); }

  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (const auto& [name, place] : places_) {
      result.push_back(name);
    }
    return result;
  }

  std::string read(const std::string& name) const override {
    const auto entry = places_.find(name);
    if (entry == places_.end()) {
      throw PackageError("it has no " + shown(name));
    }
    const Place& place = entry->second;
    const std::string header = file_.read(place.header, kLocalHeaderBytes);
    if (little_endian<uint32_t>(header, 0) != kLocalHeader) {
      throw PackageError("its directory is damaged");
    }
    const uint64_t behind = little_endian<uint16_t>(header, 26) + uint64_t{little_endian<uint16_t>(header, 28)};
    return file_.read(place.header + kLocalHeaderBytes + behind, place.bytes);
  }

  bool is_whole() const override { return true; }

 private:
  void read_directory() {
    const auto [offset, bytes, count] = find_directory();
    const std::string directory = file_.read(offset, bytes);
    size_t entry = 0;
    for (uint64_t i = 0; i < count; ++i) {
      if (little_endian<uint32_t>(directory, entry) != kDirectoryEntry) {
        throw PackageError("its directory is damaged");
      }
      if (little_endian<uint16_t>(directory, entry + 8) % 2 != 0 || little_endian<uint16_t>(directory, entry + 10) != 0) {
        throw PackageError("a member is compressed or encrypted: it was not written as a package, or packed again");
      }
      const size_t name = little_endian<uint16_t>(directory, entry + 28);
      const size_t more = little_endian<uint16_t>(directory, entry + 30) + little_endian<uint16_t>(directory, entry + 32);
      if (entry + kDirectoryEntryBytes + name > directory.size()) {
        throw PackageError("its directory is damaged");
      }
      add(directory.substr(entry + kDirectoryEntryBytes, name), place_of(directory, entry));
      entry += kDirectoryEntryBytes + name + more;
    }
  }

  struct Directory {
    uint64_t offset, bytes, count;
  };

  Directory find_directory() const {
    const uint64_t searched = std::min<uint64_t>(file_.size(), kDirectoryEndBytes + kLongestComment);
    const uint64_t begin = file_.size() - searched;
    const std::string tail = file_.read(begin, searched);
    for (size_t at = tail.size() < kDirectoryEndBytes ? 0 : tail.size() - kDirectoryEndBytes + 1; at-- > 0;) {
      if (little_endian<uint32_t>(tail, at) == kDirectoryEnd &&
          at + kDirectoryEndBytes + little_endian<uint16_t>(tail, at + 20) == tail.size()) {
        return directory_at(begin + at, tail, at);
      }
    }
    throw PackageError("it is not a package, or truncated: there is no directory of a zip file at its end");
  }

  Directory directory_at(uint64_t place, const std::string& tail, size_t at) const {
    if (place >= kWideLocatorBytes) {
      const std::string locator = file_.read(place - kWideLocatorBytes, kWideLocatorBytes);
      if (little_endian<uint32_t>(locator, 0) == kWideLocator) {
        const std::string end = file_.read(little_endian<uint64_t>(locator, 8), kWideDirectoryEndBytes);
        if (little_endian<uint32_t>(end, 0) != kWideDirectoryEnd) {
          throw PackageError("its directory is damaged");
        }
        return {little_endian<uint64_t>(end, 48), little_endian<uint64_t>(end, 40), little_endian<uint64_t>(end, 32)};
      }
    }
    return {little_endian<uint32_t>(tail, at + 16), little_endian<uint32_t>(tail, at + 12),
            little_endian<uint16_t>(tail, at + 10)};
  }

  // All members are in one folder, whose name tells nothing.
  void add(const std::string& path, const Place& place) {
    const size_t slash = path.find('/');
    if (slash == std::string::npos) {
      throw PackageError("it is not a package: " + shown(path) + " is in no folder");
    }
    if (!places_.emplace(path.substr(slash + 1), place).second) {
      throw PackageError("it has " + shown(path) + " twice");
    }
  }

  File file_;
  std::map<std::string, Place> places_;
};

// --- Folders ---------------------------------------------------------------------------------------------------------

class ModelFolder final : public Source {
 public:
  explicit ModelFolder(std::string path) : path_(std::move(path)) {}

  std::vector<std::string> names() const override {
    std::vector<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      result.push_back(kModelFolder + entry.path().filename().string());
    }
    return result;
  }

  std::string read(const std::string& name) const override {
    return read_file(path_ + "/" + name.substr(kModelFolder.size()));
  }

  bool is_whole() const override { return false; }

 private:
  std::string path_;
};

bool is_in_model_folder(const std::string& name) {
  return name.compare(0, kModelFolder.size(), kModelFolder) == 0;
}

}  // namespace

std::unique_ptr<Source> open_file(const std::string& path) {
  return std::make_unique<ZipFile>(path);
}

std::unique_ptr<Source> open_model_folder(const std::string& path) {
  return std::make_unique<ModelFolder>(path);
}

std::string read_file(const std::string& path) {
  const File file(path);
  return file.read(0, file.size());
}

const std::string& Contents::member(const std::string& name) const {
  const auto entry = members.find(name);
  if (entry == members.end()) {
    throw PackageError("it has no " + shown(name));
  }
  return entry->second;
}

Contents read_verified(const Source& source, void (*check)(const Json& manifest)) {
  const std::vector<std::string> names = source.names();
  std::set<std::string> unknown(names.begin(), names.end());
  if (unknown.erase(kManifest) == 0 || unknown.erase(kManifestDigest) == 0) {
    throw PackageError("it has no manifest: it is not a package of inductor-npu");
  }
  Contents contents;
  contents.manifest_text = source.read(kManifest);
  if (source.read(kManifestDigest) != sha256(contents.manifest_text.data(), contents.manifest_text.size())) {
    throw PackageError("its manifest is damaged: the checksum does not match");
  }
  contents.manifest = Json::parse(contents.manifest_text);
  check(contents.manifest);
  for (const auto& [name, digest] : contents.manifest.at("sha256").object()) {
    const bool of_model = is_in_model_folder(name);
    if (!of_model && !source.is_whole()) {
      continue;
    }
    if (unknown.erase(name) == 0) {
      throw PackageError("it has no " + shown(name));
    }
    std::string bytes = source.read(name);
    if (sha256(bytes.data(), bytes.size()) != digest.string()) {
      throw PackageError("its member " + shown(name) + " is damaged: the checksum does not match");
    }
    if (of_model) {
      contents.members.emplace(name.substr(kModelFolder.size()), std::move(bytes));
    }
  }
  if (!unknown.empty()) {
    throw PackageError("it has a member that does not belong there: " + shown(*unknown.begin()));
  }
  return contents;
}

}  // namespace inductor_npu::package
