#include "muster/base/object_store.h"

namespace muster {

SharedFileSystem* shared_file_system_for(const Path& path) {
  return is_remote(path) ? dynamic_cast<SharedFileSystem*>(&file_system_for(path)) : nullptr;
}

ObjectStore* object_store_for(const Path& path) {
  return is_remote(path) ? dynamic_cast<ObjectStore*>(&file_system_for(path)) : nullptr;
}

bool is_remote(const Path& path) {
  return strip_file_scheme(path).native().find("://") != std::string::npos;
}

Path absolute_path(const Path& path) {
  if (is_remote(path)) return path;
  return std::filesystem::absolute(strip_file_scheme(path)).lexically_normal();
}

}  // namespace muster
