/** The body of a response. It has no precise type: tests read any field, which the OpenAPI document defines. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any -- a test reads any field of any answer
export type Body = any
