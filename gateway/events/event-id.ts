/** A number in the events of one gateway. */
export interface EventNumber {
  /** Epoch of the `EventRing` of the gateway. */
  readonly epoch: string
  readonly number: number
}

/** Maximum number of gateways that an id names. */
const mostGateways = 4
/** Maximum length of an id: 4 times an epoch, a number and a separator. */
export const eventIdLength = 256

/**
 * Formats the id of an event. It names more than one gateway while a client receives from one gateway what it has
 * partly received from another. The client has the events of each of them up to its number.
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
