import type { Authority, KeyedCertificate } from './authority.js'

/** Share of a certificate's lifetime after which it is renewed. */
export const renewAfterShare = 2 / 3

/** Time to replace a certificate that ends at `notAfterMs` and was issued for `lifetimeMs`. */
export function renewAtMs(notAfterMs: number, lifetimeMs: number): number {
  return notAfterMs - lifetimeMs * (1 - renewAfterShare)
}

/** Whether a certificate is to be replaced: two thirds of its life are over, or the clock was ahead when it was issued. */
export function isRenewalDue(
  { notBeforeMs, notAfterMs }: Pick<KeyedCertificate, 'notBeforeMs' | 'notAfterMs'>,
  lifetimeMs: number,
  nowMs = Date.now(),
): boolean {
  return nowMs < notBeforeMs || nowMs >= renewAtMs(notAfterMs, lifetimeMs)
}

/**
 * The gateway's own client certificate: made at start, kept in memory, renewed in time. By the wall clock, whatever
 * may be wrong with it: a certificate from a wrong clock is replaced as soon as the clock is right.
 */
export class GatewayLeaf {
  private constructor(
    private readonly authority: Authority,
    private readonly lifetimeMs: number,
    private leaf: KeyedCertificate,
  ) {}

  static async issue(authority: Authority, lifetimeMs: number): Promise<GatewayLeaf> {
    return new GatewayLeaf(authority, lifetimeMs, await authority.issue({ role: 'gateway' }, lifetimeMs))
  }

  get current(): KeyedCertificate {
    return this.leaf
  }

  /**
   * @param inDoubt whether the clock may be wrong: then a certificate is replaced only if it is not valid by that clock.
   * Should the clock have been wrong, the new one is replaced in turn: it is of nobody's concern but the gateway's.
   * @returns whether it was renewed, so that connections should move to it
   */
  async renewIfDue(nowMs = Date.now(), inDoubt = false): Promise<boolean> {
    if (!isRenewalDue(this.leaf, this.lifetimeMs, nowMs)) return false
    const { notBeforeMs, notAfterMs } = this.leaf
    if (inDoubt && nowMs >= notBeforeMs && nowMs < notAfterMs) return false
    this.leaf = await this.authority.issue({ role: 'gateway' }, this.lifetimeMs)
    return true
  }
}
