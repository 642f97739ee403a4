#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "muster/base/error.h"
#include "muster/data/checkpoint/bundle_reader.h"
#include "muster/data/summary/event_reader.h"
#include "muster/export/export_saved_model.h"
#include "muster/export/graph_hook.h"
#include "muster/export/inference_graph.h"
#include "muster/export/trace.h"
#include "muster/export/translate.h"
#include "muster/nn/model/dense.h"
#include "muster/nn/model/head.h"
#include "muster/saved_model/graph/check.h"
#include "muster/saved_model/graph/join.h"
#include "muster/saved_model/graph/op_registry.h"
#include "muster/saved_model/graph/saved_model.h"
#include "muster/testing/data_dir.h"
#include "muster/testing/temp_dir.h"
#include "muster/train/estimator/small_net_internal.h"

namespace muster::exporting {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

struct DenseNet : Model {
  DenseNet() {
    hidden = register_module("hidden", std::make_shared<Dense>(4, 8));
    norm = register_module("norm", torch::nn::BatchNorm1d(8));
    logits = register_module("logits", torch::nn::Linear(8, 3));
  }
  torch::Tensor forward(const Features& x) override {
    return logits->forward(torch::relu(norm->forward(hidden->forward(x.tensor("x")))));
  }
  std::shared_ptr<Dense> hidden;
  torch::nn::BatchNorm1d norm{nullptr};
  torch::nn::Linear logits{nullptr};
};

struct ImageNet : Model {
  ImageNet() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 4, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    logits = register_module("logits", torch::nn::Linear(36, 3));
  }
  torch::Tensor forward(const Features& x) override {
    auto y = x.tensor("image").view({-1, 1, 6, 6});
    seen = y.flip(3);
    y = torch::max_pool2d(torch::relu(norm->forward(conv->forward(y))), 2);
    // The number of rows as a number, which the second batch shows to be one.
    return logits->forward(y.permute({0, 2, 3, 1}).reshape({y.size(0), 36}));
  }
  torch::Tensor seen;
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear logits{nullptr};
};

Features rows() { return {{"x", torch::arange(12, torch::kFloat).view({3, 4}) - 6}}; }
Features images() { return {{"image", torch::arange(72, torch::kFloat).view({2, 36})}}; }

std::vector<std::string> kinds(const Program& program) {
  std::vector<std::string> names;
  for (const auto& operation : program.operations) names.push_back(operation.kind);
  return names;
}

// "Conv2D(transpose, conv/kernel/Read/ReadVariableOp)" a line, without variables and constants.
std::string outline(const graph::GraphDef& graph) {
  std::string text;
  for (const auto& node : graph.nodes) {
    if (node.op == "Const" || node.op == "VarHandleOp" || node.op == "ReadVariableOp") continue;
    text += node.name + " = " + node.op + "(";
    for (std::size_t i = 0; i < node.inputs.size(); ++i) text += (i ? ", " : "") + node.inputs[i];
    text += ")\n";
  }
  return text;
}

template <typename Function>
std::string error_of(Function&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_sound(const TranslatedModel& model) {
  graph::check_graph(model.graph);
  std::set<std::string> used;
  for (const auto& node : model.graph.nodes) {
    for (const auto& input : node.inputs) used.insert(std::string(graph::parse_input(input).node));
  }
  for (const auto& variable : model.variables) {
    EXPECT_TRUE(used.contains(variable.read)) << variable.read << " is read by nobody";
  }
}

TEST(Trace, KeepsWhatPredictionsNeedAndFreesTheBatchSize) {
  const auto model = std::make_shared<ImageNet>();
  const auto head = multi_class_head(3);
  const Program program = trace(*model, head.get(), images());
  EXPECT_TRUE(model->is_training());
  const auto reshape = std::find_if(program.operations.begin(), program.operations.end(),
                                    [](const auto& it) { return it.kind == "aten::reshape"; });
  ASSERT_NE(reshape, program.operations.end());
  EXPECT_THAT(std::get<std::vector<Size>>(reshape->arguments[1]),
              ElementsAre(Size{.per_row = 1}, Size{.constant = 36}));
  EXPECT_EQ(reshape->scope, "norm");
  // Something for a summary, which no prediction needs.
  EXPECT_THAT(kinds(program), Not(Contains("aten::flip")));
  EXPECT_EQ(program.variables.size(), 8U);
}

TEST(Trace, NamesTheModuleWhereControlFlowFollowsTheData) {
  struct Deciding : DenseNet {
    torch::Tensor forward(const Features& x) override {
      auto y = hidden->forward(x.tensor("x"));
      if (x.tensor("x")[0][0].item<float>() < 0) y = torch::relu(y);
      return logits->forward(y);
    }
  };
  const auto model = std::make_shared<Deciding>();
  const auto head = multi_class_head(3);
  EXPECT_THAT(error_of([&] { trace(*model, head.get(), rows()); }),
              AllOf(HasSubstr("depends on the values"), HasSubstr("hidden")));
}

TEST(Trace, RefusesANumberThatFollowsTheData) {
  struct Scaling : DenseNet {
    torch::Tensor forward(const Features& x) override {
      const auto largest = x.tensor("x")[0][0].item<double>();
      return logits->forward(hidden->forward(x.tensor("x")) * largest);
    }
  };
  const auto model = std::make_shared<Scaling>();
  const auto head = multi_class_head(3);
  EXPECT_THAT(error_of([&] { trace(*model, head.get(), rows()); }),
              AllOf(HasSubstr("a number is -6 for one input and 2 for another"),
                    HasSubstr("aten::mul, which follows hidden")));
}

TEST(Translate, WritesADenseNet) {
  const auto model = std::make_shared<DenseNet>();
  const auto head = multi_class_head(3);
  const auto translated = translate(trace(*model, head.get(), rows()));
  expect_sound(translated);
  EXPECT_EQ(outline(translated.graph), R"(x = Placeholder()
hidden/MatMul = MatMul(x, hidden/kernel/Read/ReadVariableOp)
hidden/BiasAdd = BiasAdd(hidden/MatMul, hidden/bias/Read/ReadVariableOp)
norm/batchnorm/AddV2 = AddV2(norm/moving_variance/Read/ReadVariableOp, norm/Const)
norm/batchnorm/Rsqrt = Rsqrt(norm/batchnorm/AddV2)
norm/batchnorm/Mul = Mul(norm/batchnorm/Rsqrt, norm/gamma/Read/ReadVariableOp)
norm/batchnorm/Mul_1 = Mul(norm/moving_mean/Read/ReadVariableOp, norm/batchnorm/Mul)
norm/batchnorm/Sub = Sub(norm/beta/Read/ReadVariableOp, norm/batchnorm/Mul_1)
norm/batchnorm/Mul_2 = Mul(hidden/BiasAdd, norm/batchnorm/Mul)
norm/batchnorm/AddV2_1 = AddV2(norm/batchnorm/Mul_2, norm/batchnorm/Sub)
norm/Relu = Relu(norm/batchnorm/AddV2_1)
logits/MatMul = MatMul(norm/Relu, logits/kernel/Read/ReadVariableOp)
logits/BiasAdd = BiasAdd(logits/MatMul, logits/bias/Read/ReadVariableOp)
logits/ArgMax = ArgMax(logits/BiasAdd, logits/Const)
logits/ExpandDims = ExpandDims(logits/ArgMax, logits/Const)
logits/Softmax = Softmax(logits/BiasAdd)
Shape = Shape(x)
batch_size = StridedSlice(Shape, Const_1, Const_2, Const_2)
shape = Pack(batch_size, Const_3)
BroadcastTo = BroadcastTo(Const, shape)
head/predictions/logits = Identity(logits/BiasAdd)
head/predictions/probabilities = Identity(logits/Softmax)
head/predictions/class_ids = Identity(logits/ExpandDims)
head/predictions/all_class_ids = Identity(BroadcastTo)
head/predictions/AsString = AsString(logits/ExpandDims)
head/predictions/classes = Identity(head/predictions/AsString)
head/predictions/AsString_1 = AsString(BroadcastTo)
head/predictions/all_classes = Identity(head/predictions/AsString_1)
)");
}

TEST(Translate, WritesImagesChannelsLastWithOneTranspose) {
  const auto model = std::make_shared<ImageNet>();
  const auto head = multi_class_head(3, {.label_vocabulary = {"a", "b", "c"}});
  const auto translated = translate(trace(*model, head.get(), images()));
  expect_sound(translated);
  EXPECT_EQ(outline(translated.graph), R"(image = Placeholder()
Reshape = Reshape(image, Const)
conv/transpose = Transpose(Reshape, conv/Const)
conv/Conv2D = Conv2D(conv/transpose, conv/kernel/Read/ReadVariableOp)
conv/BiasAdd = BiasAdd(conv/Conv2D, conv/bias/Read/ReadVariableOp)
norm/FusedBatchNormV3 = FusedBatchNormV3(conv/BiasAdd, norm/gamma/Read/ReadVariableOp, norm/beta/Read/ReadVariableOp, norm/moving_mean/Read/ReadVariableOp, norm/moving_variance/Read/ReadVariableOp)
norm/Relu = Relu(norm/FusedBatchNormV3)
norm/MaxPool = MaxPool(norm/Relu)
norm/Reshape = Reshape(norm/MaxPool, norm/Const)
logits/MatMul = MatMul(norm/Reshape, logits/kernel/Read/ReadVariableOp)
logits/BiasAdd = BiasAdd(logits/MatMul, logits/bias/Read/ReadVariableOp)
logits/ArgMax = ArgMax(logits/BiasAdd, logits/Const)
logits/ExpandDims = ExpandDims(logits/ArgMax, logits/Const)
logits/Softmax = Softmax(logits/BiasAdd)
Shape = Shape(image)
batch_size = StridedSlice(Shape, Const_2, Const_3, Const_3)
shape = Pack(batch_size, Const_4)
BroadcastTo = BroadcastTo(Const_1, shape)
head/predictions/logits = Identity(logits/BiasAdd)
head/predictions/probabilities = Identity(logits/Softmax)
head/predictions/class_ids = Identity(logits/ExpandDims)
head/predictions/all_class_ids = Identity(BroadcastTo)
head/predictions/GatherV2 = GatherV2(head/predictions/Const, logits/ExpandDims, head/predictions/Const_1)
head/predictions/classes = Identity(head/predictions/GatherV2)
head/predictions/GatherV2_1 = GatherV2(head/predictions/Const, BroadcastTo, head/predictions/Const_1)
head/predictions/all_classes = Identity(head/predictions/GatherV2_1)
)");
}

TEST(Translate, NamesAnOperationWithoutTranslationAndItsModule) {
  struct Strange : DenseNet {
    torch::Tensor forward(const Features& x) override {
      return torch::digamma(logits->forward(hidden->forward(x.tensor("x"))));
    }
  };
  const auto model = std::make_shared<Strange>();
  const auto head = multi_class_head(3);
  EXPECT_THAT(error_of([&] { translate(trace(*model, head.get(), rows())); }),
              AllOf(HasSubstr("aten::digamma"), HasSubstr("logits")));
}

template <typename Map>
std::vector<std::string> keys_of(const Map& map) {
  std::vector<std::string> keys;
  for (const auto& item : map) keys.push_back(item.first);
  return keys;
}

TEST(ExportSavedModel, WritesSignaturesVariablesAndASaver) {
  const testing::TempDir folder;
  const auto options = small_net::small_options();
  Estimator estimator(options, small_net::quiet_config(folder / "model"));
  estimator.train(small_net::training_input, {.max_steps = 1});
  const auto receiver = raw_serving_input({{"x", torch::rand({4, small_net::kInputs})}});
  const Path first = export_saved_model(estimator, folder / "export", receiver);
  const Path second = export_saved_model(estimator, folder / "export", receiver);
  EXPECT_NE(first, second);

  const auto saved = graph::read_saved_model(first);
  const auto& meta = graph::find_meta_graph(saved, {"serve"});
  EXPECT_THAT(keys_of(meta.signatures), ElementsAre("predict", "serving_default"));
  const auto& predict = graph::find_signature(meta, "serving_default");
  EXPECT_EQ(predict.method_name, graph::kPredictMethod);
  EXPECT_EQ(predict.inputs.at("x").shape, (graph::Shape{-1, small_net::kInputs}));
  EXPECT_THAT(keys_of(predict.outputs), ElementsAre("all_class_ids", "all_classes", "class_ids",
                                                    "classes", "logits", "probabilities"));
  EXPECT_EQ(predict.outputs.at("class_ids").dtype, graph::DataType::kInt64);
  EXPECT_EQ(predict.outputs.at("classes").dtype, graph::DataType::kString);
  EXPECT_EQ(predict.outputs.at("classes").shape, (graph::Shape{-1, 1}));
  EXPECT_EQ(meta.saver->restore_op, "save/restore_all");

  const BundleReader bundle(graph::variables_prefix(first));
  EXPECT_THAT(bundle.names(),
              ElementsAre("hidden/bias", "hidden/kernel", "logits/bias", "logits/kernel",
                          "norm/beta", "norm/gamma", "norm/moving_mean", "norm/moving_variance"));
  // The kernel stands as TensorFlow multiplies it: [in, out].
  EXPECT_THAT(bundle.read("logits/kernel").spec.shape, ElementsAre(16, small_net::kClasses));
}

TEST(ExportSavedModel, TakesFilesAlongAndWritesText) {
  const testing::TempDir folder;
  testing::write_bytes(folder / "notes", "about the data");
  const auto model = std::make_shared<DenseNet>();
  const auto head = multi_class_head(3);
  const auto input = raw_serving_input(rows());
  write_model(*model, head.get(), input, folder / "text",
              {.assets_extra = {{"about/notes.txt", folder / "notes"}}, .as_text = true});
  EXPECT_EQ(testing::read_bytes(folder / "text/assets.extra/about/notes.txt"), "about the data");
  EXPECT_FALSE(file_exists(folder / "text/saved_model.pb"));
  write_model(*model, head.get(), input, folder / "binary");
  EXPECT_EQ(graph::read_saved_model(folder / "text"), graph::read_saved_model(folder / "binary"));
  EXPECT_THAT(error_of([&] {
                write_model(*model, head.get(), input, folder / "out",
                            {.assets_extra = {{"../../x", folder / "notes"}}});
              }),
              HasSubstr("../../x"));
  EXPECT_FALSE(file_exists(folder / "out"));
}

TEST(ExportSavedModel, LeavesTheGraphOfAnUntrainedModelForCheckpointsToCome) {
  const testing::TempDir folder;
  const auto options = small_net::small_options();
  const Estimator estimator(options, small_net::quiet_config(folder / "model"));
  const auto input = raw_serving_input({{"x", torch::rand({4, small_net::kInputs})}});
  const InferenceGraph graph = inference_graph(estimator, input);
  write_inference_graph(graph, folder.path());
  const auto read = graph::decode_saved_model(testing::read_bytes(folder / "graph.pb"));
  ASSERT_EQ(read.meta_graphs.size(), 1U);
  EXPECT_EQ(read.meta_graphs[0], graph.meta);
  EXPECT_EQ(read.meta_graphs[0].saver->restore_op, "save/restore_all");
}

std::size_t graphs_in_events(const Path& folder) {
  std::size_t count = 0;
  EventReader reader(folder);
  while (const auto event = reader.next()) {
    count += std::holds_alternative<GraphBytes>(event->what) ? 1 : 0;
  }
  return count;
}

TEST(GraphHook, LeavesTheGraphOfATrainingThatHasNoExporters) {
  const testing::TempDir folder;
  const Estimator estimator(small_net::small_options(), small_net::quiet_config(folder.path()));
  const auto train = [&](std::int64_t steps) {
    Estimator(small_net::small_options(), small_net::quiet_config(folder.path()))
        .train(small_net::training_input,
               {.max_steps = steps,
                .hooks = {std::make_shared<GraphHook>(
                    estimator, raw_serving_input({{"x", torch::rand({4, small_net::kInputs})}}))}});
  };
  train(2);
  EXPECT_EQ(graph::read_inference_graph(folder.path()).saver->restore_op, "save/restore_all");
  EXPECT_EQ(graphs_in_events(folder.path()), 1U);
  // Training that continues with the same graph writes no second one.
  train(4);
  EXPECT_EQ(graphs_in_events(folder.path()), 1U);
}

TEST(ExportSavedModel, WritesOperationsAsTensorFlowDefinesThem) {
  MUSTER_DATA_DIR_OR_SKIP(data);
  const auto newest = graph::OpRegistry::read(data / "tensorflow" / "ops.pbtxt.xz");
  const auto claimed = graph::OpRegistry::read(data / "tensorflow" / "ops_v1.pbtxt.xz");
  const testing::TempDir folder;
  const auto images_model = std::make_shared<ImageNet>();
  const auto words = multi_class_head(3, {.label_vocabulary = {"a", "b", "c"}});
  write_model(*images_model, words.get(), raw_serving_input(images()), folder / "images");
  const auto dense_model = std::make_shared<DenseNet>();
  write_model(*dense_model, multi_class_head(3).get(), raw_serving_input(rows()), folder / "dense");
  for (const char* name : {"images", "dense"}) {
    const auto saved = graph::read_saved_model(folder / name);
    EXPECT_EQ(saved.meta_graphs.at(0).tensorflow_version, "1.15.0");
    EXPECT_TRUE(saved.meta_graphs.at(0).stripped_default_attrs);
    // It came with 2.2, although the list of 1.x has it: 1.15 refuses a node that mentions it.
    for (const auto& node : saved.meta_graphs.at(0).graph.nodes) {
      EXPECT_FALSE(node.attrs.contains("exponential_avg_factor")) << node.name;
    }
    for (const auto* registry : {&newest, &claimed}) {
      EXPECT_NO_THROW(registry->check(saved.meta_graphs.at(0).graph)) << name;
      EXPECT_THAT(registry->spelt_out_defaults(saved.meta_graphs.at(0).graph), IsEmpty()) << name;
    }
  }
}

}  // namespace
}  // namespace muster::exporting
