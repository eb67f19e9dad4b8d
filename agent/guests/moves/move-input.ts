/** Input of the operation that moves a guest to another host. */
export interface MoveInput {
  /** Ownership generation (a number, see `Ownership`) of the guest when the move was ordered. */
  readonly generation: number
  readonly toHostId: string
  /** host:port of the agent on the target host. */
  readonly toAddress: string
  /** Serial numbers of the target's valid certificates. */
  readonly toSerials: readonly string[]
  /** Certificate for the key of the source agent, in PEM. It contains no secret. */
  readonly ticket: string
  /** The key of the ticket, sealed. */
  readonly ticketKey: string
  /** Maximum rate of the transfer in Mbit/s. 0: unlimited. */
  readonly bandwidthMbps: number
  /** True if the guest is shut down before its disk is copied. Undefined in operations of older versions. */
  readonly offline?: boolean
  /** True if a running virtual machine moves without a shutdown. Undefined in operations of older versions. */
  readonly live?: boolean
  /** Maximum expected time in ms in which the last part of the memory is sent. Only with `live`. */
  readonly maxDowntimeMs?: number
  /** Public IPv4 addresses that the guest keeps on the target. Undefined in operations of older versions. */
  readonly keptIpv4s?: readonly string[]
}

/** Traffic of the guest in the current period. */
export interface MovedTraffic {
  readonly periodStart: string
  readonly periodLeft: string
  readonly rxBytes: number
  readonly txBytes: number
}
