#include "muster/base/error.h"
#include "muster/data/tables/sqlite_table.h"

namespace muster {

std::unique_ptr<TableReader> open_sqlite(const Path& path, SqliteOptions) {
  throw Unimplemented("{}: muster was built without SQLite; install libsqlite3-dev and build again",
                      path.string());
}

}  // namespace muster
