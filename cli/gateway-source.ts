/* Errors name the source of the address and of the API key, so that users can correct it. */

/** `login`: the argument of `berth login`; `machine`: the gateway of this machine; `default`: no source exists. */
export type AddressSource = { readonly context: string } | 'BERTH_URL' | 'login' | 'machine' | 'default'

export interface GatewaySource {
  readonly address: AddressSource
  /** True if the key is that of the variable BERTH_KEY. */
  readonly hasOwnKey: boolean
}

export const loginSource: GatewaySource = { address: 'login', hasOwnKey: false }

const sources = new WeakMap<object, GatewaySource>()

/** Notes the source of the gateway that caused an error. @returns the error */
export function withSource(cause: unknown, source: GatewaySource): unknown {
  if (typeof cause === 'object' && cause !== null) sources.set(cause, source)
  return cause
}

export const sourceOf = (cause: object): GatewaySource | undefined => sources.get(cause)

/** Says where the address of a gateway comes from, and how to correct it. */
export function addressHint(source: GatewaySource | undefined): string {
  const address = source?.address
  if (address === undefined) return 'check that the gateway runs and that the URL is right'
  if (typeof address !== 'object') return addressHints[address]
  const { context } = address
  return `the URL is that of the context ${context}: check that the gateway runs
to correct the URL: berth login URL --name ${context}; to see all contexts: berth context list`
}

const addressHints: Readonly<Record<Exclude<AddressSource, object>, string>> = {
  BERTH_URL: 'the URL is that of BERTH_URL: check that the gateway runs, or correct the variable',
  login: 'check the URL in the command, and that the gateway is running',
  machine: 'this is the gateway of this machine: check it with: systemctl status berth-gateway',
  default: 'BERTH_KEY is set, but neither BERTH_URL nor a context: set BERTH_URL to the URL of the gateway',
}

/** Says how to trust the certificate of a gateway. */
export function certificateHint(source: GatewaySource | undefined): string {
  const address = source?.address
  if (address === 'BERTH_URL' || address === 'default')
    return 'trust a certificate of your own with: NODE_EXTRA_CA_CERTS=FILE'
  const name = typeof address === 'object' ? ` --name ${address.context}` : ''
  return `trust a certificate of your own with: berth login URL --ca-file FILE${name}`
}

/** Says how to use another address. */
export function otherAddressHint(source: GatewaySource | undefined, url: string): string {
  const address = source?.address
  if (address === 'BERTH_URL' || address === 'default') return `use this address: BERTH_URL=${url}`
  return `log in there: berth login ${url}`
}

/** Says how to use another API key. */
export function otherKeyHint(source: GatewaySource | undefined, kind: string): string {
  if (source?.hasOwnKey) return `set BERTH_KEY to ${kind}`
  return `log in with ${kind}: berth login URL`
}
