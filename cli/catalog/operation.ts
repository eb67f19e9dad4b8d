/* These types describe the API's operations. The build writes the operations to a file, for use by the program. */

export type FlagType = 'text' | 'whole' | 'number' | 'switch' | 'size' | 'object'

/** A flag, which sets a parameter of the query or a field of the body. */
export interface Flag {
  /** Name without the leading dashes. */
  readonly name: string
  readonly place: 'query' | 'body'
  readonly field: string
  readonly type: FlagType
  readonly text: string
  readonly isList?: true
  readonly isRequired?: true
  /** Allowed values; undefined: any. */
  readonly values?: readonly string[]
  /** Unit of a field of type `size`. */
  readonly unit?: SizeUnit
  /** Kind of the named object. The program also accepts the object's name or the beginning of its UUID. */
  readonly names?: NamedKind
  /** Keys of the value, for flags of the type `object`. */
  readonly keys?: readonly ObjectKey[]
  /** Example of a value of the type `object`. */
  readonly example?: string
}

/** A key of an object, which is the value of a flag. */
export interface ObjectKey {
  readonly name: string
  /** Type or allowed values, in words. */
  readonly type: string
  /** Description; empty for objects with many keys. */
  readonly text: string
  readonly isRequired?: true
}

export type SizeUnit = 'B' | 'MiB' | 'GiB' | 'GB'
/** `guest`: the API accepts id, UUID and name of a guest; `guest-id`: only the id; `guest-uuid`: only the UUID. */
export type NamedKind = 'guest' | 'guest-id' | 'guest-uuid' | 'host'

/** An argument without a flag: a parameter of the path, or the most important field of the body. */
export interface Argument {
  readonly label: string
  readonly place: 'path' | 'body' | 'file'
  readonly field: string
  readonly names?: NamedKind
  /** Description for the help. */
  readonly text?: string
}

/** A flag of the program that every command accepts. */
export type GlobalFlag = 'output' | 'columns' | 'jq' | 'quiet' | 'context' | 'wait' | 'timeout'

/** Form of the answer: the usual envelope, lines of JSON, server-sent events, a picture, or a file of any length. */
export type AnswerForm = 'envelope' | 'lines' | 'events' | 'picture' | 'file'

export interface Operation {
  readonly noun: string
  readonly verb: string
  /** The method is in capitals, such as `GET`. */
  readonly method: string
  readonly path: string
  readonly summary: string
  readonly arguments: readonly Argument[]
  readonly flags: readonly Flag[]
  readonly hasBody: boolean
  /** Content type of a file that is the body. The last argument is then the file. */
  readonly upload?: string
  readonly answer: AnswerForm
  /** An example of the command, without `berth`. */
  readonly example: string
  /** Global flags that the help shows. */
  readonly globalFlags?: readonly GlobalFlag[]
  /** True if the help does not show the command, because another one does the same. */
  readonly isHidden?: true
}

export const commandOf = ({ noun, verb }: Pick<Operation, 'noun' | 'verb'>): string => `${noun} ${verb}`
