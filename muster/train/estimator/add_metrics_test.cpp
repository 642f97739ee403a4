#include "muster/train/estimator/add_metrics.h"

#include <gmock/gmock.h>
#include <torch/types.h>

#include <map>

#include "muster/base/error.h"
#include "muster/data/summary/event_reader.h"
#include "muster/nn/model/metrics.h"
#include "muster/testing/message_of.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/canned/canned.h"
#include "muster/train/estimator/metric_tables.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster {
namespace {

using testing::message_of;
using testing::TempDir;
using namespace small_net;  // NOLINT(google-build-using-namespace): a fixture in a header
using ::testing::HasSubstr;

// Batches of 4 of the numbers 0 to 15, of which those above 7 are labelled 1.
Dataset<Batch> of_numbers(const InputContext&) {
  return range(16).batch(4, [](std::span<const std::int64_t> numbers) {
    const auto x = torch::tensor(std::vector<std::int64_t>(numbers.begin(), numbers.end()));
    return make_batch({{"x", x.to(torch::kFloat)}, {"half", x.gt(7).to(torch::kLong)}},
                      x.gt(7).to(torch::kFloat));
  });
}

TEST(AddMetrics, AddsToWhatACannedEstimatorReports) {
  const TempDir folder;
  const Estimator plain =
      linear_classifier({.feature_columns = {numeric_column("x")}}, quiet_config(folder.path()));
  Estimator estimator =
      slice_metrics(add_metrics(add_detailed_metrics(plain),
                                [](const EvaluatedBatch& batch) {
                                  MetricSet set;
                                  set.add("mean_x", Mean()).update(batch.features.tensor("x"));
                                  return set;
                                }),
                    {"half"});
  estimator.train(of_numbers, {.steps = 2});
  const EvaluationResult result = estimator.evaluate(of_numbers);
  EXPECT_DOUBLE_EQ(result.at("mean_x"), 7.5);
  EXPECT_DOUBLE_EQ(result.at("mean_x/half=0"), 3.5);
  EXPECT_DOUBLE_EQ(result.at("mean_x/half=1"), 11.5);
  EXPECT_EQ(result.count("balanced_accuracy"), 1U);
  EXPECT_EQ(result.count("accuracy/half=1"), 1U);
  EXPECT_EQ(Estimator(plain).evaluate(of_numbers).count("f1"), 0U);

  std::map<std::string, std::string> texts;
  std::map<std::string, ImageShape> pictures;
  EventReader events(event_files(estimator.eval_dir()).front());
  while (const auto event = events.next()) {
    const auto* summary = std::get_if<Summary>(&event->what);
    if (summary == nullptr) continue;
    for (const auto& value : *summary) {
      if (const auto* image = std::get_if<ImageData>(&value.data)) {
        pictures[value.tag] = image->shape;
      } else if (const auto* text = std::get_if<StringTensor>(&value.data)) {
        texts[value.tag] = text->values.front();
      }
    }
  }
  EXPECT_THAT(texts["confusion_matrix/table"], HasSubstr("| label / prediction | 0 | 1 |"));
  EXPECT_EQ(pictures["confusion_matrix/picture"].height, 32);
}

TEST(AddMetrics, NeedsAHead) {
  const TempDir folder;
  EstimatorOptions options = small_options();
  options.head = nullptr;
  const Estimator estimator(options, quiet_config(folder.path()));
  EXPECT_THAT(message_of([&] { add_detailed_metrics(estimator); }), HasSubstr("needs a head"));
}

TEST(MetricTables, AreMarkdownAndPictures) {
  const MetricTable table{
      .corner = "c", .rows = {"a|b", "d"}, .columns = {"x", "y"}, .values = {3, 1, 0, 0}};
  EXPECT_EQ(markdown_of(table),
            "| c | x | y |\n| --- | --- | --- |\n| a\\|b | 3 | 1 |\n| d | 0 | 0 |");
  const TablePicture picture = picture_of(table);
  EXPECT_EQ(picture.shape, (ImageShape{.height = 32, .width = 32}));
  EXPECT_EQ(picture.samples[0], 64);
  EXPECT_EQ(picture.samples[16], 191);
  EXPECT_EQ(picture.samples[31 * 32], 255);
  EXPECT_THROW(picture_of({}), InvalidArgument);
}

}  // namespace
}  // namespace muster
