#include "muster/data/tables/sqlite_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <fstream>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/dataset/dataset.h"
#include "muster/data/tables/table_files.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

/// A database that these statements have made.
Path database_of(const TempDir& folder, const std::string& statements) {
  const Path path = folder / "x.db";
  sqlite3* database = nullptr;
  EXPECT_EQ(::sqlite3_open(path.c_str(), &database), SQLITE_OK);
  EXPECT_EQ(::sqlite3_exec(database, statements.c_str(), nullptr, nullptr, nullptr), SQLITE_OK);
  ::sqlite3_close(database);
  return path;
}

constexpr const char* kPeople =
    "create table people (id integer, hours, name text, picture blob);"
    "insert into people values (3, 1, 'Ann', x'00ff'), (1, 2.5, null, null), (2, null, 'Bob', "
    "x'');";

TEST(SqliteTable, HasTheColumnsOfTheQuery) {
  const TempDir folder;
  const Path path = database_of(folder, kPeople);
  const auto block =
      open_sqlite(path, {.query = "select id, hours, name, picture from people order by id;"})
          ->next();
  ASSERT_EQ(block->rows, 3u);
  EXPECT_THAT(std::get<TableNumbers<std::int64_t>>(block->columns[0].values), ElementsAre(1, 2, 3));
  EXPECT_THAT(std::get<TableNumbers<double>>(block->columns[1].values), ElementsAre(2.5, 0.0, 1.0));
  EXPECT_THAT(block->columns[1].valid, ElementsAre(1, 0, 1));
  EXPECT_THAT(std::get<std::vector<std::string_view>>(block->columns[2].values),
              ElementsAre("", "Bob", "Ann"));
  EXPECT_EQ(std::get<std::vector<std::string_view>>(block->columns[3].values)[2],
            std::string_view("\0\xff", 2));
}

TEST(SqliteTable, IsADatasetThatIsResumedAtAnyRow) {
  const TempDir folder;
  const Path path = database_of(folder,
                                "create table t as with recursive n(i) as (select 0 union all "
                                "select i + 1 from n where i < 99) select i from n;");
  const auto rows = sqlite_rows(path, {.query = "select i from t order by i", .block_rows = 7});
  const auto i_of = [](const TableRow& row) {
    return std::get<TableNumbers<std::int64_t>>(row.block->columns[0].values)[row.row];
  };
  for (const int done : {0, 6, 7, 50, 99}) {
    const auto first = rows.iterate();
    for (int i = 0; i < done; ++i) EXPECT_EQ(i_of(*first->next()), i);
    EXPECT_EQ(i_of(*rows.iterate(first->save())->next()), done);
  }
}

TEST(SqliteTable, RefusesWhatIsNoSelectOfOneDatabase) {
  const TempDir folder;
  const Path path = database_of(folder, kPeople);
  const auto message = [&](const std::string& query) {
    return message_of([&] { open_sqlite(path, {.query = query})->next(); });
  };
  EXPECT_THAT(message("select absent from people"),
              HasSubstr("x.db: SQLite says: no such column: absent"));
  EXPECT_THAT(message("delete from people"), HasSubstr("the query is no SELECT"));
  EXPECT_THAT(message(""), HasSubstr("the query is no SELECT"));
  EXPECT_THAT(message("select 1; select 2"), HasSubstr("there is more: "));
  EXPECT_THAT(message("select id, id from people"),
              HasSubstr("2 columns of 1 names; give each its own by AS"));
  EXPECT_THAT(message("select case id when 1 then 'a' else 1 end as x from people"),
              HasSubstr("`x` has values of different types"));
  EXPECT_THROW(open_sqlite(folder / "absent.db", {.query = "select 1"}), NotFound);
  std::ofstream(folder / "bad.db") << std::string(5000, 'x');
  EXPECT_THROW(open_sqlite(folder / "bad.db", {.query = "select * from sqlite_master"}), DataLoss);
}

TEST(SqliteTable, NamesTheRowThatDoesNotFit) {
  const TempDir folder;
  const Path path = database_of(folder, kPeople);
  EXPECT_THAT(message_of([&] {
                open_sqlite(path,
                            {.query = "select hours from people order by id desc", .guess_rows = 1})
                    ->next();
              }),
              HasSubstr("x.db row 2: `hours` is 2.5, not int64"));
}

}  // namespace
}  // namespace muster
