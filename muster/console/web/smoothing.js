// The moving average of TensorBoard: exponential, with its start put right.

/** Values smoothed by a weight from 0 (as they are) to 0.99; null stays null. */
export function smoothed(values, weight) {
  if (weight <= 0) return values;
  let last = 0;
  let count = 0;
  return values.map((value) => {
    if (value === null) return null;
    last = last * weight + (1 - weight) * value;
    count += 1;
    return last / (1 - weight ** count);
  });
}
