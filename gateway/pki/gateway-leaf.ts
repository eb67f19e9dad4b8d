import type { Authority, KeyedCertificate } from './authority.js'

/** Fraction of a certificate's lifetime after which it is renewed. */
export const renewAfterShare = 2 / 3

/** Time in ms since 1970 at which to renew a certificate that has this end and this lifetime. */
export function renewAtMs(notAfterMs: number, lifetimeMs: number): number {
  return notAfterMs - lifetimeMs * (1 - renewAfterShare)
}

/**
 * True if two thirds of a certificate's lifetime have passed. Also true if the certificate is not valid yet, because
 * the clock was ahead when the certificate was issued.
 */
export function isLeafRenewalDue(
  { notBeforeMs, notAfterMs }: Pick<KeyedCertificate, 'notBeforeMs' | 'notAfterMs'>,
  lifetimeMs: number,
  nowMs = Date.now(),
): boolean {
  return nowMs < notBeforeMs || nowMs >= renewAtMs(notAfterMs, lifetimeMs)
}

/**
 * The gateway's client certificate. It is issued at the start, renewed in time, and only stored in memory. A
 * certificate is issued even if the clock is perhaps wrong, and replaced when the clock is correct again.
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
   * Renews the certificate if needed.
   * @param inDoubt true if the clock is perhaps wrong; only a certificate that is not valid at `nowMs` is then renewed
   * @returns true if it was renewed, so that connections should use the new certificate
   */
  async renewIfDue(nowMs = Date.now(), inDoubt = false): Promise<boolean> {
    if (!isLeafRenewalDue(this.leaf, this.lifetimeMs, nowMs)) return false
    const { notBeforeMs, notAfterMs } = this.leaf
    if (inDoubt && nowMs >= notBeforeMs && nowMs < notAfterMs) return false
    this.leaf = await this.authority.issue({ role: 'gateway' }, this.lifetimeMs)
    return true
  }
}
