/** Of an answer. Loose on purpose: tests look into it, the OpenAPI document says what it must be. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a test reads any field of any answer
export type Body = any
