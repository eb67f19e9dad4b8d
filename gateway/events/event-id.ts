/** The number of an entry in the `EventRing` of one gateway. */
export interface EventNumber {
  /** The `epoch` of this `EventRing`. */
  readonly epoch: string
  readonly number: number
}

const mostGateways = 4
/** Maximum length of an event id. The id has up to four parts, each with an epoch, a number and a separator. */
export const eventIdLength = 256

/**
 * Formats the id of an event. The client has received the events of each gateway in the id up to the gateway's number.
 * For a while after a change to another gateway, the id contains numbers of several gateways.
 */
export function formatEventId(numbers: readonly EventNumber[]): string {
  return numbers.map(({ epoch, number }) => `${epoch}.${number}`).join('~')
}

/** @returns undefined if the text is not a valid id */
export function parseEventId(text: string): EventNumber[] | undefined {
  if (text.length > eventIdLength) return undefined
  const numbers = text.split('~').map(parseNumber)
  const valid = numbers.filter((number) => number !== undefined)
  return valid.length === numbers.length && valid.length <= mostGateways ? valid : undefined
}

function parseNumber(text: string): EventNumber | undefined {
  const [, epoch, digits] = /^([\w-]{1,40})\.(\d{1,15})$/.exec(text) ?? []
  return epoch === undefined ? undefined : { epoch, number: Number(digits) }
}
