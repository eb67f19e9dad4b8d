import type { paths } from '../schema.gen.js'
import type { RequestOptions } from '../http/connection.js'

/* This module derives the types of requests and answers from the OpenAPI document. */

type Methods = 'get' | 'post' | 'put' | 'patch' | 'delete'
export type Method = Uppercase<Methods>

type OperationAt<Path extends keyof paths, M extends Method> = Exclude<
  paths[Path][Lowercase<M> & keyof paths[Path]],
  undefined
>

/** Paths of the API that have the method `M`. */
export type PathOf<M extends Method> = {
  [Path in keyof paths]: [OperationAt<Path, M>] extends [never] ? never : Path
}[keyof paths]

interface Parameters {
  readonly path?: unknown
  readonly query?: unknown
}
type ParametersOf<Operation> = Operation extends { parameters: infer P extends Parameters } ? P : never
type BodyOf<Operation> = Operation extends { requestBody?: infer R }
  ? Exclude<R, undefined> extends { content: { 'application/json': infer Body } }
    ? undefined extends R
      ? Body | undefined
      : Body
    : never
  : never

/** An object with the property `Name`, optional if `Value` can be undefined. `unknown` if `Value` is undefined. */
type Part<Name extends string, Value> = [Exclude<Value, undefined>] extends [never]
  ? unknown
  : undefined extends Value
    ? { readonly [N in Name]?: Value }
    : { readonly [N in Name]: Value }

/** Parameters of the path, the query and the body of a request. */
export type RequestOf<Path extends keyof paths, M extends Method> = RequestOptions &
  Part<'path', ParametersOf<OperationAt<Path, M>>['path']> &
  Part<'query', ParametersOf<OperationAt<Path, M>>['query']> &
  Part<'body', BodyOf<OperationAt<Path, M>>>

/** The request as an argument. The argument is optional if the request has no required parts. */
export type RequestArgument<Path extends keyof paths, M extends Method> =
  RequestOptions extends RequestOf<Path, M> ? [request?: RequestOf<Path, M>] : [request: RequestOf<Path, M>]

type ResponsesOf<Operation> = Operation extends { responses: infer R } ? R : never
type SuccessOf<Responses> = Responses[Extract<keyof Responses, 200 | 201 | 202 | 207>]

/** The body of a successful answer. */
export type EnvelopeOf<Path extends keyof paths, M extends Method> =
  SuccessOf<ResponsesOf<OperationAt<Path, M>>> extends infer S
    ? S extends { content: { 'application/json': infer Body } }
      ? Body
      : never
    : never

export type DataOf<Body> = Body extends { data?: infer Data } ? Data : undefined

/** Rows of a list. */
export type RowOf<Path extends keyof paths> =
  DataOf<EnvelopeOf<Path, 'GET'>> extends readonly (infer Row)[] ? Row : never

/** Paths of lists that the API returns in pages. */
export type ListPath = {
  [Path in PathOf<'GET'>]: Exclude<ParametersOf<OperationAt<Path, 'GET'>>['query'], undefined> extends {
    page_size?: number
  }
    ? Path
    : never
}[PathOf<'GET'>]
