import { t, texts } from '../i18n/text.svelte.ts'
import type { Ending } from './ending.ts'

/** Explains to the user why a console is not open. */
export function endingText({ reason }: Ending): string {
  const refusal = texts.find(`error.${reason}`, t('console.end.lost'))
  return texts.find(`console.end.${reason}`, refusal)
}
