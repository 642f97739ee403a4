extern muster::Estimator estimator;
extern muster::InputFn input_fn, train_input, eval_input;
