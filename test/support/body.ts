/** The body of an answer. Loose on purpose: tests read any field of it, and the OpenAPI document defines it. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a test reads any field of any answer
export type Body = any
