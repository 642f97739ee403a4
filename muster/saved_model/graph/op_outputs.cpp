#include <algorithm>

#include "muster/base/error.h"
#include "muster/saved_model/graph/op_outputs_internal.h"

namespace muster::graph {
namespace {

/// An operation with its outputs: "name" is one value, "name*attr" as many as the attribute says, a
/// number or a list of types.
struct OpOutputs {
  std::string_view op;
  std::string_view outputs;
};

// In the order of their names.
constexpr OpOutputs kSeveralOutputs[] = {
    {"BlockLSTM", "i cs f o ci co h"},
    {"BlockLSTMV2", "i cs f o ci co h"},
    {"CTCBeamSearchDecoder",
     "decoded_indices*top_paths decoded_values*top_paths decoded_shape*top_paths log_probability"},
    {"CTCGreedyDecoder", "decoded_indices decoded_values decoded_shape log_probability"},
    {"CombinedNonMaxSuppression", "nmsed_boxes nmsed_scores nmsed_classes valid_detections"},
    {"DenseCountSparseOutput", "output_indices output_values output_dense_shape"},
    {"DenseToDenseSetOperation", "result_indices result_values result_shape"},
    {"DenseToSparseSetOperation", "result_indices result_values result_shape"},
    {"DeserializeManySparse", "sparse_indices sparse_values sparse_shape"},
    {"DeserializeSparse", "sparse_indices sparse_values sparse_shape"},
    {"Eig", "e v"},
    {"FusedBatchNorm", "y batch_mean batch_variance reserve_space_1 reserve_space_2"},
    {"FusedBatchNormV2", "y batch_mean batch_variance reserve_space_1 reserve_space_2"},
    {"FusedBatchNormV3",
     "y batch_mean batch_variance reserve_space_1 reserve_space_2 reserve_space_3"},
    {"GRUBlockCell", "r u c h"},
    {"GenerateBoundingBoxProposals", "rois roi_probabilities"},
    {"LSTMBlockCell", "i cs f o ci co h"},
    {"ListDiff", "out idx"},
    {"LogMatrixDeterminant", "sign log_abs_determinant"},
    {"LookupTableExport", "keys values"},
    {"LookupTableExportV2", "keys values"},
    {"Lu", "lu p"},
    {"MaxPoolWithArgmax", "output argmax"},
    {"Merge", "output value_index"},
    {"NonMaxSuppressionV4", "selected_indices valid_outputs"},
    {"NonMaxSuppressionV5", "selected_indices selected_scores valid_outputs"},
    {"ParseExample",
     "sparse_indices*Nsparse sparse_values*sparse_types sparse_shapes*Nsparse dense_values*Tdense"},
    {"ParseExampleV2",
     "sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse "
     "dense_values*Tdense ragged_values*ragged_value_types ragged_row_splits*ragged_split_types"},
    {"ParseSequenceExample",
     "context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types "
     "context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense "
     "feature_list_sparse_indices*Nfeature_list_sparse "
     "feature_list_sparse_values*feature_list_sparse_types "
     "feature_list_sparse_shapes*Nfeature_list_sparse "
     "feature_list_dense_values*feature_list_dense_types "
     "feature_list_dense_lengths*Nfeature_list_dense"},
    {"ParseSequenceExampleV2",
     "context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types "
     "context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense "
     "context_ragged_values*context_ragged_value_types "
     "context_ragged_row_splits*context_ragged_split_types "
     "feature_list_sparse_indices*Nfeature_list_sparse "
     "feature_list_sparse_values*feature_list_sparse_types "
     "feature_list_sparse_shapes*Nfeature_list_sparse "
     "feature_list_dense_values*feature_list_dense_types "
     "feature_list_dense_lengths*Nfeature_list_dense "
     "feature_list_ragged_values*feature_list_ragged_value_types "
     "feature_list_ragged_outer_splits*feature_list_ragged_split_types "
     "feature_list_ragged_inner_splits*feature_list_ragged_split_types"},
    {"ParseSingleExample",
     "sparse_indices*num_sparse sparse_values*sparse_types sparse_shapes*num_sparse "
     "dense_values*Tdense"},
    {"ParseSingleSequenceExample",
     "context_sparse_indices*Ncontext_sparse context_sparse_values*context_sparse_types "
     "context_sparse_shapes*Ncontext_sparse context_dense_values*Tcontext_dense "
     "feature_list_sparse_indices*Nfeature_list_sparse "
     "feature_list_sparse_values*feature_list_sparse_types "
     "feature_list_sparse_shapes*Nfeature_list_sparse "
     "feature_list_dense_values*feature_list_dense_types"},
    {"Qr", "q r"},
    {"RaggedCountSparseOutput", "output_indices output_values output_dense_shape"},
    {"RaggedCross", "output_values output_row_splits"},
    {"RaggedFillEmptyRows",
     "output_value_rowids output_values empty_row_indicator reverse_index_map"},
    {"RaggedGather", "output_nested_splits*OUTPUT_RAGGED_RANK output_dense_values"},
    {"RaggedRange", "rt_nested_splits rt_dense_values"},
    {"RaggedTensorFromVariant", "output_nested_splits*output_ragged_rank output_dense_values"},
    {"RaggedTensorToSparse", "sparse_indices sparse_values sparse_dense_shape"},
    {"SelfAdjointEigV2", "e v"},
    {"SoftmaxCrossEntropyWithLogits", "loss backprop"},
    {"SparseAdd", "sum_indices sum_values sum_shape"},
    {"SparseConcat", "output_indices output_values output_shape"},
    {"SparseCountSparseOutput", "output_indices output_values output_dense_shape"},
    {"SparseCross", "output_indices output_values output_shape"},
    {"SparseCrossHashed", "output_indices output_values output_shape"},
    {"SparseCrossV2", "output_indices output_values output_shape"},
    {"SparseFillEmptyRows", "output_indices output_values empty_row_indicator reverse_index_map"},
    {"SparseReduceMaxSparse", "output_indices output_values output_shape"},
    {"SparseReduceSumSparse", "output_indices output_values output_shape"},
    {"SparseReorder", "output_indices output_values"},
    {"SparseReshape", "output_indices output_shape"},
    {"SparseSlice", "output_indices output_values output_shape"},
    {"SparseSoftmaxCrossEntropyWithLogits", "loss backprop"},
    {"SparseSparseMaximum", "output_indices output_values"},
    {"SparseSparseMinimum", "output_indices output_values"},
    {"SparseSplit", "output_indices*num_split output_values*num_split output_shape*num_split"},
    {"SparseToSparseSetOperation", "result_indices result_values result_shape"},
    {"StatelessRandomGetKeyCounter", "key counter"},
    {"StatelessRandomGetKeyCounterAlg", "key counter alg"},
    {"StringNGrams", "ngrams ngrams_splits"},
    {"StringSplit", "indices values shape"},
    {"StringSplitV2", "indices values shape"},
    {"Svd", "s u v"},
    {"Switch", "output_false output_true"},
    {"TensorListConcat", "tensor lengths"},
    {"TensorListConcatV2", "tensor lengths"},
    {"TensorListPopBack", "output_handle tensor"},
    {"TopK", "values indices"},
    {"TopKV2", "values indices"},
    {"UnicodeDecode", "row_splits char_values"},
    {"UnicodeDecodeWithOffsets", "row_splits char_values char_to_byte_starts"},
    {"Unique", "y idx"},
    {"UniqueV2", "y idx"},
    {"UniqueWithCounts", "y idx count"},
    {"UniqueWithCountsV2", "y idx count"},
};

std::string_view take_word(std::string_view& text) {
  const std::size_t end = std::min(text.find(' '), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

// How many values the output has that takes its number from this attribute.
int count_from(const NodeDef& node, std::string_view name) {
  const AttrValue* found = find_attr(node.attrs, name);
  if (found != nullptr) {
    if (const auto* list = std::get_if<AttrList>(&found->value)) {
      return static_cast<int>(list->types.size());
    }
  }
  const auto count = attr<std::int64_t>(node, name);
  // As many as a node may have inputs: more outputs than that have no reader.
  constexpr std::int64_t kMost = 65'536;
  if (count < 0 || count > kMost) {
    throw InvalidArgument("node '{}' ({}) has {} outputs by {}; at most {} are allowed", node.name,
                          node.op, count, name, kMost);
  }
  return static_cast<int>(count);
}

}  // namespace

std::string_view several_outputs(std::string_view op) {
  const auto* found =
      std::lower_bound(std::begin(kSeveralOutputs), std::end(kSeveralOutputs), op,
                       [](const OpOutputs& each, std::string_view name) { return each.op < name; });
  return found != std::end(kSeveralOutputs) && found->op == op ? found->outputs
                                                               : std::string_view();
}

int flat_output_index(const NodeDef& node, const InputRef& from) {
  std::string_view outputs = several_outputs(node.op);
  if (from.output.empty() || outputs.empty()) return from.index;
  int place = 0;
  while (!outputs.empty()) {
    const std::string_view word = take_word(outputs);
    const std::size_t star = std::min(word.find('*'), word.size());
    if (word.substr(0, star) == from.output) return place + from.index;
    place += star == word.size() ? 1 : count_from(node, word.substr(star + 1));
  }
  throw InvalidArgument("node '{}' ({}) has no output '{}'", node.name, node.op, from.output);
}

}  // namespace muster::graph
