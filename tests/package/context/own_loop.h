constexpr std::int64_t kBatch = 64;
struct SpiralNet : torch::nn::Module {
  torch::Tensor forward(const torch::Tensor& points);
};
struct Points {
  torch::Tensor at, arm;
};
Points points(std::int64_t first, std::int64_t count);
double accuracy(SpiralNet& net);
extern muster::Estimator estimator;
extern muster::InputFn train_input, eval_input;
