#include "muster/console/scalar_events.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/summary/event.h"

namespace muster::console {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

struct Seen {
  std::string tag;
  std::int64_t step;
  double time;
  double value;

  bool operator==(const Seen&) const = default;
};

std::vector<Seen> scanned(const Event& event) {
  std::vector<Seen> seen;
  scan_scalars(encode_event(event), [&](const ScalarEvent& one) {
    seen.push_back({std::string(one.tag), one.step, one.time, one.value});
  });
  return seen;
}

TEST(ScalarEvents, FindsScalarsAmongOtherValues) {
  const Event event{.wall_time = 12.5,
                    .step = 7,
                    .what = Summary{{.tag = "loss", .data = 0.5F},
                                    text_summary("note", std::string(100, 'x')),
                                    {.tag = "accuracy", .data = 0.25F}}};
  EXPECT_THAT(scanned(event),
              ElementsAre(Seen{"loss", 7, 12.5, 0.5}, Seen{"accuracy", 7, 12.5, 0.25}));
}

TEST(ScalarEvents, FindsScalarsThatAreTensors) {
  const Event event{
      .step = -1,
      .what = Summary{
          {.tag = "loss", .data = NumberTensor{.shape = {}, .values = {3}}, .plugin = "scalars"},
          {.tag = "lr", .data = 2.0F}}};
  EXPECT_THAT(scanned(event),
              ::testing::UnorderedElementsAre(Seen{"loss", -1, 0, 3}, Seen{"lr", -1, 0, 2}));
}

TEST(ScalarEvents, PassesOverEventsWithoutAny) {
  EXPECT_THAT(scanned({.what = FileVersion{std::string(kEventFileVersion)}}), IsEmpty());
  EXPECT_THAT(scanned({.what = SessionMark{.status = SessionMark::Status::kStart}}), IsEmpty());
}

TEST(ScalarEvents, RefusesBytesThatAreNoEvent) {
  const std::string event = encode_event({.what = Summary{{.tag = "loss", .data = 1.0F}}});
  int refused = 0;
  for (std::size_t size = 1; size < event.size(); ++size) {
    try {
      scan_scalars(std::string_view(event).substr(0, size), [](const ScalarEvent&) {});
    } catch (const DataLoss&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 5);
}

}  // namespace
}  // namespace muster::console
