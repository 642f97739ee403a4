extern muster::Estimator estimator;
extern muster::FeatureColumnList columns;
extern muster::InputFn train_input, eval_input;
extern muster::ServingInput serving_input;
extern torch::nn::LSTM lstm;
extern torch::Tensor steps, lengths;
