import type { Authority, KeyedCertificate } from './authority.js'

/** Share of a certificate's lifetime after which it is renewed. */
export const renewAfterShare = 2 / 3

/** Time to replace a certificate that ends at `notAfterMs` and was issued for `lifetimeMs`. */
export function renewAtMs(notAfterMs: number, lifetimeMs: number): number {
  return notAfterMs - lifetimeMs * (1 - renewAfterShare)
}

/**
 * True if a certificate is due for renewal: two thirds of its lifetime are over, or the clock was ahead when it was
 * issued.
 */
export function isLeafRenewalDue(
  { notBeforeMs, notAfterMs }: Pick<KeyedCertificate, 'notBeforeMs' | 'notAfterMs'>,
  lifetimeMs: number,
  nowMs = Date.now(),
): boolean {
  return nowMs < notBeforeMs || nowMs >= renewAtMs(notAfterMs, lifetimeMs)
}

/**
 * The gateway's own client certificate: issued at start, kept in memory, renewed in time. It uses the wall clock even
 * if that may be wrong; the certificate is replaced as soon as the clock is correct again.
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
   * @param inDoubt whether the clock may be wrong. A certificate is then replaced only if it is not valid by that
   * clock. If the clock was wrong, the new certificate is replaced in turn, which affects only the gateway. @returns
   * whether it was renewed, so that connections should move to it
   */
  async renewIfDue(nowMs = Date.now(), inDoubt = false): Promise<boolean> {
    if (!isLeafRenewalDue(this.leaf, this.lifetimeMs, nowMs)) return false
    const { notBeforeMs, notAfterMs } = this.leaf
    if (inDoubt && nowMs >= notBeforeMs && nowMs < notAfterMs) return false
    this.leaf = await this.authority.issue({ role: 'gateway' }, this.lifetimeMs)
    return true
  }
}
