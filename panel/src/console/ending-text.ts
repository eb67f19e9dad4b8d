import { t, texts } from '../i18n/text.svelte.ts'
import type { Ending } from './ending.ts'

/** The reason why a console is not open, for its user. */
export function endingText({ reason }: Ending): string {
  const refusal = texts.find(`error.${reason}`, t('console.end.lost'))
  return texts.find(`console.end.${reason}`, refusal)
}
