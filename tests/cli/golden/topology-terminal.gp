# gnuplot 5.4 or later
reset
set encoding utf8
set terminal dumb size 100,50 noenhanced mono
set output
set label 'l20-pcie-8: 8 x l20' at screen 0.02,0.958716 left
set label 'box: 2 x socket (mesh); between halves 31 GB/s, 7.75 GB/s per GPU' at screen 0.02,0.926606 left
set key at screen 0.02,0.90367 left top vertical maxcols 1 Left reverse samplen 3 spacing 1.2
unset border
unset tics
unset grid
set lmargin at screen 0
set rmargin at screen 1
set tmargin at screen 1
set bmargin at screen 0
set xrange [0:929]
set yrange [0:872]
set object 1 rect from 64,64 to 445,574 behind fillcolor '#F7F7F5' fillstyle solid 1 border linecolor '#999999'
set label 'socket 0' at 254.5,91 center front font ',12' textcolor '#666666'
set object 2 rect from 88,505 to 421,550 front fillcolor '#D55E00' fillstyle solid 1 border linecolor '#ffffff' linewidth 1
set label 'socket switch' at 254.5,527.5 center front font ',11' textcolor '#ffffff'
set object 3 rect from 484,64 to 865,574 behind fillcolor '#F7F7F5' fillstyle solid 1 border linecolor '#999999'
set label 'socket 1' at 674.5,91 center front font ',12' textcolor '#666666'
set object 4 rect from 508,505 to 841,550 front fillcolor '#D55E00' fillstyle solid 1 border linecolor '#ffffff' linewidth 1
set label 'socket switch' at 674.5,527.5 center front font ',11' textcolor '#ffffff'
set object 5 rect from 88,124 to 235,370 behind fillcolor '#F7F7F5' fillstyle solid 1 border linecolor '#999999'
set label 'switch 0' at 161.5,151 center front font ',12' textcolor '#666666'
set object 6 rect from 112,301 to 211,346 front fillcolor '#0072B2' fillstyle solid 1 border linecolor '#ffffff' linewidth 1
set object 7 rect from 274,124 to 421,370 behind fillcolor '#F7F7F5' fillstyle solid 1 border linecolor '#999999'
set label 'switch 1' at 347.5,151 center front font ',12' textcolor '#666666'
set object 8 rect from 298,301 to 397,346 front fillcolor '#0072B2' fillstyle solid 1 border linecolor '#ffffff' linewidth 1
set object 9 rect from 508,124 to 655,370 behind fillcolor '#F7F7F5' fillstyle solid 1 border linecolor '#999999'
set label 'switch 2' at 581.5,151 center front font ',12' textcolor '#666666'
set object 10 rect from 532,301 to 631,346 front fillcolor '#0072B2' fillstyle solid 1 border linecolor '#ffffff' linewidth 1
set object 11 rect from 694,124 to 841,370 behind fillcolor '#F7F7F5' fillstyle solid 1 border linecolor '#999999'
set label 'switch 3' at 767.5,151 center front font ',12' textcolor '#666666'
set object 12 rect from 718,301 to 817,346 front fillcolor '#0072B2' fillstyle solid 1 border linecolor '#ffffff' linewidth 1
set object 13 rect from 112,184 to 154,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '0' at 133,205 center front font ',10' textcolor '#222222'
set object 14 rect from 169,184 to 211,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '1' at 190,205 center front font ',10' textcolor '#222222'
set object 15 rect from 298,184 to 340,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '2' at 319,205 center front font ',10' textcolor '#222222'
set object 16 rect from 355,184 to 397,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '3' at 376,205 center front font ',10' textcolor '#222222'
set object 17 rect from 532,184 to 574,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '4' at 553,205 center front font ',10' textcolor '#222222'
set object 18 rect from 589,184 to 631,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '5' at 610,205 center front font ',10' textcolor '#222222'
set object 19 rect from 718,184 to 760,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '6' at 739,205 center front font ',10' textcolor '#222222'
set object 20 rect from 775,184 to 817,226 front fillcolor '#FFFFFF' fillstyle solid 1 border linecolor '#222222' linewidth 1.5
set label '7' at 796,205 center front font ',10' textcolor '#222222'
$cables0 << EOD
133 226
133 301

190 226
190 301

319 226
319 301

376 226
376 301

553 226
553 301

610 226
610 301

739 226
739 301

796 226
796 301

EOD
$cables1 << EOD
161.5 346
161.5 505

347.5 346
347.5 505

581.5 346
581.5 505

767.5 346
767.5 505

EOD
$cables2 << EOD
254.5 527.5
272 538.042
289.5 547.667
307 556.375
324.5 564.167
342 571.042
359.5 577
377 582.042
394.5 586.167
412 589.375
429.5 591.667
447 593.042
464.5 593.5
482 593.042
499.5 591.667
517 589.375
534.5 586.167
552 582.042
569.5 577
587 571.042
604.5 564.167
622 556.375
639.5 547.667
657 538.042
674.5 527.5

EOD
$route << EOD
EOD
plot NaN notitle, \
    $cables2 using 1:2 with lines linewidth 4.5 linecolor '#009E73' title 'box: 31 GB/s each way, 1 us', \
    $cables1 using 1:2 with lines linewidth 3.7 linecolor '#D55E00' title 'socket: 21 GB/s each way, 0 s', \
    $cables0 using 1:2 with lines linewidth 3.7 linecolor '#0072B2' title 'switch: 21 GB/s each way, 14.1 us'
unset output
