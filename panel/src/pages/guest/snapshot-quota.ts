/** Content of the form for the snapshot quota. */
export interface QuotaForm {
  readonly count: number
  /** Maximum space in GiB, rounded. 0: the default. */
  readonly spaceGib: number
}

const gib = 1024 ** 3

export function quotaForm(count: number, spaceBytes: number): QuotaForm {
  return { count, spaceGib: Math.round(spaceBytes / gib) }
}

/**
 * Converts the form to a request. The space is sent only if the user has changed it, because the form shows it rounded.
 * Also, a default space follows the size of the disk only as long as no space is sent.
 * @param saved content of the form before the user changed it
 */
export function planQuota(form: QuotaForm, saved: QuotaForm): { snapshot_limit: number; space_limit_bytes?: number } {
  const isSpaceChanged = form.spaceGib !== saved.spaceGib
  return { snapshot_limit: form.count, ...(isSpaceChanged && { space_limit_bytes: form.spaceGib * gib }) }
}
