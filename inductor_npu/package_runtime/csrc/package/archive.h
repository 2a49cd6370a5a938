// The members of a package: a zip file whose members are stored as they are, or the folder that PyTorch's loader of
// packages (torch._inductor.aoti_load_package) extracted it to.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "package/json.h"

namespace inductor_npu::package {

// Where the model is in the archive, a place that PyTorch's loader knows.
inline const std::string kModelFolder = "data/aotinductor/model/";

// Members by their path in the archive. Throws PackageError.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::vector<std::string> names() const = 0;
  virtual std::string read(const std::string& name) const = 0;
  // Whether all members are there, and not those of the model's folder alone.
  virtual bool is_whole() const = 0;
};
std::unique_ptr<Source> open_file(const std::string& path);
std::unique_ptr<Source> open_model_folder(const std::string& path);

// The bytes of the file `path`. Throws PackageError.
std::string read_file(const std::string& path);

// What a package consists of, after all of it has been verified.
struct Contents {
  std::string manifest_text;
  Json manifest;
  std::map<std::string, std::string> members;  // by path in the model's folder

  const std::string& member(const std::string& name) const;
};

// Reads all members and holds them against the manifest's checksums. `check` gets the manifest first, and throws where
// the package does not fit this process. Throws PackageError.
Contents read_verified(const Source& source, void (*check)(const Json& manifest));

}  // namespace inductor_npu::package
